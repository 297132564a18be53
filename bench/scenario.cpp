#include "bench/scenario.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "bench/load_client.h"
#include "bench/process_meter.h"

namespace millrace::bench {

Result<Window> Window::begin(const ServerUnderLoad& target) {
  const Result<double> server = cpu_seconds(target.pid);
  if (!server) return server.error();
  const Result<double> client = cpu_seconds(::getpid());
  if (!client) return client.error();
  Window window;
  window.pid_ = target.pid;
  window.server_cpu_s_ = *server;
  window.client_cpu_s_ = *client;
  window.start_ = Clock::now();
  return window;
}

Result<std::vector<Figure>> Window::figures(const std::string& item, double num_items) const {
  const double wall_s = seconds();
  const Result<double> server = cpu_seconds(pid_);
  if (!server) return server.error();
  const Result<double> client = cpu_seconds(::getpid());
  if (!client) return client.error();
  const double server_s = *server - server_cpu_s_;
  return std::vector<Figure>{
      {item + "_per_s", num_items / wall_s},
      {item + "_per_server_core_s", num_items / server_s},
      {"server_cores_used", server_s / wall_s},
      {"client_cores_used", (*client - client_cpu_s_) / wall_s},
      {"seconds", wall_s},
  };
}

double quantile(std::vector<float>& values, double share) {
  CHECK(!values.empty(), "a quantile of something");
  const auto rank = static_cast<size_t>(share * static_cast<double>(values.size()));
  const auto nth = values.begin() + static_cast<ptrdiff_t>(std::min(rank, values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return static_cast<double>(*nth);
}

Result<Report> measure_idle(const ServerUnderLoad& target, size_t num_connections, double seconds) {
  const Result<LoadClient> client = LoadClient::connect(target.address, num_connections);
  if (!client) return client.error();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Result<double> before = cpu_seconds(target.pid);
  if (!before) return before.error();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const Result<double> after = cpu_seconds(target.pid);
  if (!after) return after.error();
  return Report{
      .scenario = "idle",
      .setting = fmt::format("{} silent connections", num_connections),
      .figures = {{"server_cpu_ms", (*after - *before) * 1e3}, {"seconds", seconds}},
  };
}

}  // namespace millrace::bench
