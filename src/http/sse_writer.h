// Server-sent events (WHATWG HTML, 9.2) over an exchange's stream.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "http/exchange.h"

namespace millrace::http {

// Thread-safe as the exchange is; events of several threads do not mix. Keeps the exchange alive.
// Each method that writes returns false when there is no one to read: see Exchange::write.
class SseWriter {
 public:
  explicit SseWriter(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

  // Sends 200, the content type and the given fields.
  bool begin(std::vector<Header> headers = {});

  // One event. Every line end in `payload` (CR, LF, CRLF) becomes a new "data:" line.
  bool data(std::string_view payload);
  // One event with a name. REQUIRES: `name` holds neither CR nor LF.
  bool event(std::string_view name, std::string_view payload);
  // A line that readers skip: keeps proxies from closing a silent stream.
  bool comment(std::string_view text);

  bool finish() { return exchange_->finish(); }
  Exchange& exchange() { return *exchange_; }

 private:
  bool write_event(std::string_view prefix, std::string_view payload);

  std::shared_ptr<Exchange> exchange_;
};

}  // namespace millrace::http
