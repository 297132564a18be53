#include "server/refusal_log.h"

namespace millrace {

void append_error_fields(const ApiError& error, std::vector<LogField>& fields) {
  fields.push_back({"status", error.status});
  fields.push_back({"code", error.code});
  if (error.param) fields.push_back({"param", *error.param});
  fields.push_back({"error", error.message});
}

void log_refusal(Log& log, const http::Request& request, const ApiError& error) {
  if (!log.is_on(LogLevel::kInfo)) return;
  std::vector<LogField> fields = {
      {"request_id", request.id},
      {"client", request.remote_address},
      {"path", request.path()},
      {"outcome", "refused"},
  };
  append_error_fields(error, fields);
  log.write(LogLevel::kInfo, "request", fields);
}

}  // namespace millrace
