// The flags of `millrace serve`, as vLLM spells them where vLLM has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "command_line.h"
#include "engine/null_engine.h"
#include "model_flags.h"
#include "server/api_server.h"

namespace millrace {

struct ServeFlags {
  ModelFlags model;

  std::string host = "127.0.0.1";
  int32_t port = 8000;
  std::string uds;
  std::string ssl_keyfile;
  std::string ssl_certfile;
  std::vector<std::string> api_keys;
  std::vector<std::string> served_model_names;
  std::vector<std::string> allowed_origins;

  int32_t num_io_threads = 0;
  int32_t num_text_threads = 0;
  int32_t max_num_live_seqs = 4096;
  std::optional<int64_t> max_num_queued_reqs;
  std::optional<int64_t> max_num_queued_tokens;
  std::optional<int64_t> max_result_bytes;
  int32_t max_logprobs = 20;
  std::optional<int64_t> max_body_bytes;
  std::optional<int64_t> max_connections;
  double shutdown_timeout_s = 25.0;
  double engine_stall_timeout_s = 60.0;

  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;
  bool log_requests = false;
  std::string record;

  std::string engine = "cpu";
  double null_tokens_per_second = 50.0;
  double null_ttft_ms = 0.0;
  double null_stall_s = 0.0;  // 0: never
};

void add_serve_flags(CommandLine& line, ServeFlags& flags);

// Each refuses what cannot work, by the flag's name.
Result<ApiServerOptions> api_server_options_of(const ServeFlags& flags);
Result<AdmissionLimits> admission_limits_of(const ServeFlags& flags);
Result<ServingOptions> serving_options_of(const ServeFlags& flags);
Result<NullEngineOptions> null_engine_options_of(const ServeFlags& flags);
Result<LogOptions> log_options_of(const ServeFlags& flags);

}  // namespace millrace
