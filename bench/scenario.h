// The measurements of frontend_load. Each runs on the caller's thread, checks what it receives, and
// gives figures or the error that makes them worthless.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/address.h"

namespace millrace::bench {

// The server that is measured.
struct ServerUnderLoad {
  http::Address address;
  pid_t pid = 0;
  std::string model;
};

struct Figure {
  std::string name;  // with its unit, as a JSON key: "events_per_s"
  double value = 0;
};

struct Report {
  std::string scenario;
  std::string setting;  // for people: lengths, connections
  std::vector<Figure> figures;
};

// What server and client use between its construction and figures().
class Window {
 public:
  static Result<Window> begin(const ServerUnderLoad& target);

  double seconds() const { return to_seconds(Clock::now() - start_); }
  // Ends the window: seconds, and the cores that server and client kept busy. `num_items` of `item`
  // give the rates "<item>_per_s" and "<item>_per_server_core_s".
  Result<std::vector<Figure>> figures(const std::string& item, double num_items) const;

 private:
  pid_t pid_ = 0;
  TimePoint start_;
  double server_cpu_s_ = 0;
  double client_cpu_s_ = 0;
};

// The `share` quantile (0 to 1) by nearest rank; sorts partially. REQUIRES: some values.
double quantile(std::vector<float>& values, double share);

// What an idle server uses with `num_connections` open and silent.
Result<Report> measure_idle(const ServerUnderLoad& target, size_t num_connections, double seconds);

}  // namespace millrace::bench
