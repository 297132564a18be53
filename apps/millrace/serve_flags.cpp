#include "serve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/available.h"
#include "base/json.h"
#include "http/cors.h"
#include "local_time.h"
#include "record_flag.h"
#include "server/api_keys.h"

namespace millrace {
namespace {

Error wrong_value(const char* flag, const std::string& expected, const std::string& given) {
  return invalid_argument(fmt::format("{} must be {}, got '{}'", flag, expected, given), flag);
}

// One origin, or vLLM's spelling: a JSON list of them.
Result<void> add_origins(const std::string& text, std::vector<std::string>& origins) {
  std::vector<std::string> given = {text};
  if (text.starts_with('[')) {
    const Result<json::value> list = parse_json(text);
    if (!list) return list.error();
    given.clear();
    for (const json::value& origin : list->as_array()) {
      if (!origin.is_string()) return invalid_argument("must be a list of strings");
      given.emplace_back(origin.get_string());
    }
  }
  for (const std::string& each : given) {
    Result<std::string> origin = http::parse_origin(each);
    if (!origin) return origin.error();
    origins.push_back(*std::move(origin));
  }
  return {};
}

void add_network_flags(CommandLine& line, ServeFlags& flags) {
  line.add("--host", flags.host, "address to listen on; :: or 0.0.0.0 for all");
  line.add("--port", flags.port, "TCP port; 0: the system chooses, and the log says which");
  line.add("--uds", flags.uds, "Unix socket to listen on, instead of host and port");
  line.add("--ssl-certfile", flags.ssl_certfile, "PEM file with the certificate and its chain");
  line.add("--ssl-keyfile", flags.ssl_keyfile, "PEM file with the private key");
  line.add_callback(
      "--api-key",
      [&flags](const std::string& key) -> Result<void> {
        if (auto checked = check_api_key(key); !checked) return checked.error();
        flags.api_keys.push_back(key);
        return {};
      },
      "key that clients must show; may be given several times"
  );
  line.add_callback(
      "--served-model-name",
      [&flags](const std::string& name) -> Result<void> {
        if (name.empty()) return invalid_argument("must not be empty");
        flags.served_model_names.push_back(name);
        return {};
      },
      "name under which clients ask for the model (MODEL); may be given several times"
  );
  line.add_callback(
      "--allowed-origins",
      [&flags](const std::string& text) { return add_origins(text, flags.allowed_origins); },
      "scheme://host[:port] of web pages that may use the server, or *; may be given several "
      "times, or as a JSON list"
  );
}

void add_limit_flags(CommandLine& line, ServeFlags& flags) {
  line.add(
      "--max-num-live-seqs",
      flags.max_num_live_seqs,
      "most sequences that run or wait; further requests get 503, or 429 where their API key holds "
      "more than an equal share, and Retry-After"
  );
  line.add_size(
      "--max-num-queued-reqs",
      flags.max_num_queued_reqs,
      "most sequences that wait for their first step (no limit of its own)"
  );
  line.add_size(
      "--max-num-queued-tokens",
      flags.max_num_queued_tokens,
      "most prompt tokens of those (no limit)"
  );
  line.add_size(
      "--max-result-bytes",
      flags.max_result_bytes,
      "most memory that the results of all requests together could take, each at its longest: "
      "bounds n, max_tokens and logprobs (1G)"
  );
  line.add("--max-logprobs", flags.max_logprobs, "most logprobs that a request may ask for");
  line.add_size("--max-body-bytes", flags.max_body_bytes, "largest request body (64M)");
  line.add_size("--max-connections", flags.max_connections, "most connections at once (65536)");
  line.add(
      "--shutdown-timeout",
      flags.shutdown_timeout_s,
      "seconds that requests under way get to finish after SIGTERM"
  );
  line.add(
      "--engine-stall-timeout",
      flags.engine_stall_timeout_s,
      "seconds after which an engine without progress counts as dead (/livez)"
  );
  line.add("--io-threads", flags.num_io_threads, "threads for connections; 0: CPUs less one");
  line.add("--text-threads", flags.num_text_threads, "threads for texts; 0: half the CPUs");
}

void add_log_flags(CommandLine& line, ServeFlags& flags) {
  line.add("--log-level", flags.log_level, "debug, info, warning or error");
  line.add("--log-format", flags.log_format, "text or json");
  line.add("--log-file", flags.log_file, "file to append the log to, instead of stderr");
  line.add_flag("--enable-log-requests", flags.log_requests, "log a line for each request");
  add_record_flag(line, flags.record);
}

void add_null_engine_flags(CommandLine& line, ServeFlags& flags) {
  line.add(
      "--engine",
      flags.engine,
      "cpu; or null: makes tokens up, to test and measure the server alone (lengths, seeds, stops "
      "and logprobs count, the fields that shape a distribution do not)"
  );
  line.add(
      "--null-tokens-per-second",
      flags.null_tokens_per_second,
      "tokens a second of each sequence, with --engine null"
  );
  line.add(
      "--null-ttft-ms", flags.null_ttft_ms, "milliseconds to the first token, with --engine null"
  );
  line.add(
      "--null-stall-s",
      flags.null_stall_s,
      "seconds for which --engine null stands still after its 100th step, to test probes"
  );
}

size_t threads_or(int32_t given, size_t otherwise) {
  return given > 0 ? static_cast<size_t>(given) : std::max<size_t>(otherwise, 1);
}

// Before the HTTP layer does, which knows no flags.
Result<void> check_limits(const http::HttpLimits& limits) {
  const Result<void> valid = http::validate(limits);
  if (valid) return {};
  const bool is_of_bodies = valid.error().where == "body_bytes_max";
  const char* flag = is_of_bodies ? "--max-body-bytes" : "--max-connections";
  return invalid_argument(fmt::format("{}: {}", flag, valid.error().message), flag);
}

Result<void> check_files(const ServeFlags& flags) {
  if (flags.ssl_certfile.empty() != flags.ssl_keyfile.empty()) {
    const char* flag = flags.ssl_certfile.empty() ? "--ssl-certfile" : "--ssl-keyfile";
    return invalid_argument(fmt::format("{} is missing: TLS takes both files", flag), flag);
  }
  if (!flags.uds.empty() && !flags.ssl_certfile.empty()) {
    return invalid_argument(
        "--uds takes no --ssl-certfile and --ssl-keyfile: a Unix socket speaks plain HTTP", "--uds"
    );
  }
  return {};
}

Result<void> check_engine(const ServeFlags& flags) {
  if (flags.engine == "null") {
    if (!flags.record.empty()) {
      return invalid_argument("--record takes --engine cpu: others have no steps", "--record");
    }
    if (flags.model.device != "auto") {
      return invalid_argument("--engine null computes nothing, on no --device", "--device");
    }
    if (flags.model.tensor_parallel_size != 1) {
      return invalid_argument(
          "--engine null computes nothing, on no --tensor-parallel-size", "--tensor-parallel-size"
      );
    }
    if (flags.model.speculation) {
      return invalid_argument(
          "--speculative-config takes --engine cpu: others compute nothing", "--speculative-config"
      );
    }
    if (flags.model.scheduling_policy == "fair") {
      return invalid_argument(
          "--scheduling-policy fair takes --engine cpu: null has fcfs and priority",
          "--scheduling-policy"
      );
    }
    return {};
  }
  if (flags.engine != "cpu") return wrong_value("--engine", "cpu or null", flags.engine);
  const ServeFlags defaults;
  for (const auto& [flag, given, by_default] :
       {std::tuple(
            "--null-tokens-per-second",
            flags.null_tokens_per_second,
            defaults.null_tokens_per_second
        ),
        std::tuple("--null-ttft-ms", flags.null_ttft_ms, defaults.null_ttft_ms),
        std::tuple("--null-stall-s", flags.null_stall_s, defaults.null_stall_s)}) {
    if (given == by_default) continue;
    return invalid_argument(fmt::format("{} takes --engine null", flag), flag);
  }
  return {};
}

Result<std::string> address_of(const ServeFlags& flags) {
  if (!flags.uds.empty()) return "unix:" + flags.uds;
  if (flags.port < 0 || flags.port > 65535) {
    return wrong_value("--port", "0 to 65535", std::to_string(flags.port));
  }
  const bool is_ipv6 = flags.host.find(':') != std::string::npos && !flags.host.starts_with('[');
  return is_ipv6 ? fmt::format("[{}]:{}", flags.host, flags.port)
                 : fmt::format("{}:{}", flags.host, flags.port);
}

Result<void> check_seconds(const char* flag, double seconds, double least) {
  constexpr double kMost = 86400.0;
  if (seconds >= least && seconds <= kMost) return {};
  return wrong_value(
      flag, fmt::format("{} to {} seconds", least, kMost), fmt::format("{}", seconds)
  );
}

}  // namespace

void add_serve_flags(CommandLine& line, ServeFlags& flags) {
  add_model_flags(line, flags.model);
  add_tensor_parallel_flag(line, flags.model);
  add_network_flags(line, flags);
  add_limit_flags(line, flags);
  add_log_flags(line, flags);
  add_null_engine_flags(line, flags);
  line.set_footer(
      "Endpoints: /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /detokenize,\n"
      "/generate, /health, /livez, /readyz, /metrics, /openapi.json, and a page at /.\n"
      "SIGTERM lets requests under way finish; a second one does not.\n"
      "\n"
      "Examples:\n"
      "  millrace serve\n"
      "  millrace serve ~/models/Qwen2-0.5B-Instruct --host 0.0.0.0 --api-key \"$KEY\"\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}'"
  );
}

Result<ApiServerOptions> api_server_options_of(const ServeFlags& flags) {
  if (auto checked = check_files(flags); !checked) return checked.error();
  Result<std::string> address = address_of(flags);
  if (!address) return address.error();
  for (const auto& [flag, seconds, least] :
       {std::tuple{"--shutdown-timeout", flags.shutdown_timeout_s, 0.0},
        std::tuple{"--engine-stall-timeout", flags.engine_stall_timeout_s, 0.1}}) {
    if (auto checked = check_seconds(flag, seconds, least); !checked) return checked.error();
  }
  for (const auto& [flag, threads] :
       {std::pair{"--io-threads", flags.num_io_threads},
        std::pair{"--text-threads", flags.num_text_threads}}) {
    if (threads < 0 || threads > 256) {
      return wrong_value(flag, "0 to 256", std::to_string(threads));
    }
  }
  ApiServerOptions options;
  options.addresses = {*std::move(address)};
  if (!flags.ssl_certfile.empty()) {
    options.tls = http::TlsFiles{.cert_file = flags.ssl_certfile, .key_file = flags.ssl_keyfile};
  }
  if (flags.max_body_bytes)
    options.limits.body_bytes_max = static_cast<size_t>(*flags.max_body_bytes);
  if (flags.max_connections) {
    options.limits.num_connections_max = static_cast<size_t>(*flags.max_connections);
  }
  if (auto checked = check_limits(options.limits); !checked) return checked.error();
  options.num_io_threads = threads_or(flags.num_io_threads, num_available_cpus() - 1);
  options.api_keys = flags.api_keys;
  options.allowed_origins = flags.allowed_origins;
  options.version = MILLRACE_VERSION;
  const std::chrono::duration<double> stall(flags.engine_stall_timeout_s);
  options.stall_timeout = std::chrono::duration_cast<Duration>(stall);
  return options;
}

Result<AdmissionLimits> admission_limits_of(const ServeFlags& flags) {
  constexpr int64_t kSequencesMax = 1'000'000;
  AdmissionLimits limits;
  if (flags.max_num_queued_reqs) {
    const int64_t num_seqs = *flags.max_num_queued_reqs;
    if (num_seqs < 1 || num_seqs > kSequencesMax) {
      return wrong_value("--max-num-queued-reqs", "1 to 1000000", std::to_string(num_seqs));
    }
    limits.max_num_queued_reqs = static_cast<int32_t>(num_seqs);
  }
  if (flags.max_num_queued_tokens == 0) {
    return wrong_value("--max-num-queued-tokens", "at least 1", "0");
  }
  limits.max_num_queued_tokens = flags.max_num_queued_tokens;
  if (flags.max_result_bytes == 0) return wrong_value("--max-result-bytes", "at least 1", "0");
  limits.max_result_bytes = flags.max_result_bytes.value_or(limits.max_result_bytes);
  return limits;
}

Result<ServingOptions> serving_options_of(const ServeFlags& flags) {
  if (auto checked = check_engine(flags); !checked) return checked.error();
  if (flags.max_num_live_seqs < 1 || flags.max_num_live_seqs > 1'000'000) {
    return wrong_value(
        "--max-num-live-seqs", "1 to 1000000", std::to_string(flags.max_num_live_seqs)
    );
  }
  if (flags.max_logprobs < 0 || flags.max_logprobs > 1024) {
    return wrong_value("--max-logprobs", "0 to 1024", std::to_string(flags.max_logprobs));
  }
  ServingOptions options;
  options.model_path = flags.model.model;
  options.model_names = flags.served_model_names;
  if (options.model_names.empty()) options.model_names.push_back(flags.model.model);
  options.local_now = local_now;
  options.logs_requests = flags.log_requests;
  options.num_text_threads = threads_or(flags.num_text_threads, num_available_cpus() / 2);
  return options;
}

Result<NullEngineOptions> null_engine_options_of(const ServeFlags& flags) {
  constexpr double kRateMin = 0.001;
  constexpr double kRateMax = 1e9;
  if (!(flags.null_tokens_per_second >= kRateMin && flags.null_tokens_per_second <= kRateMax)) {
    return wrong_value(
        "--null-tokens-per-second",
        fmt::format("{} to {}", kRateMin, kRateMax),
        fmt::format("{}", flags.null_tokens_per_second)
    );
  }
  if (auto checked = check_seconds("--null-ttft-ms", flags.null_ttft_ms / 1000.0, 0.0); !checked) {
    return checked.error();
  }
  if (auto checked = check_seconds("--null-stall-s", flags.null_stall_s, 0.0); !checked) {
    return checked.error();
  }
  NullEngineOptions options;
  options.tokens_per_second = flags.null_tokens_per_second;
  const std::chrono::duration<double, std::milli> ttft(flags.null_ttft_ms);
  options.time_to_first_token = std::chrono::duration_cast<Duration>(ttft);
  if (flags.null_stall_s > 0.0) {
    constexpr int64_t kStepsBeforeStall = 100;
    options.faults.num_steps_before_stall = kStepsBeforeStall;
    const std::chrono::duration<double> stall(flags.null_stall_s);
    options.faults.stall_time = std::chrono::duration_cast<Duration>(stall);
  }
  return options;
}

Result<LogOptions> log_options_of(const ServeFlags& flags) {
  LogOptions options;
  const std::pair<const char*, LogLevel> levels[] = {
      {"debug", LogLevel::kDebug},
      {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning},
      {"error", LogLevel::kError},
  };
  const auto level = std::ranges::find_if(levels, [&](const auto& entry) {
    return flags.log_level == entry.first;
  });
  if (level == std::end(levels)) {
    return wrong_value("--log-level", "debug, info, warning or error", flags.log_level);
  }
  options.level = level->second;
  if (flags.log_format != "text" && flags.log_format != "json") {
    return wrong_value("--log-format", "text or json", flags.log_format);
  }
  options.format = flags.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  if (!flags.log_file.empty()) options.path = flags.log_file;
  return options;
}

}  // namespace millrace
