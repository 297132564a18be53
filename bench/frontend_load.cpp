// Measures a server's front end from one client core: see bench/frontend.sh, which starts both.
// Prints a table and, with --json, one JSON object a line; exits with 1 and without that scenario's
// figures if an answer was not what was asked for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/answer_check.h"
#include "bench/canned_server.h"
#include "bench/closed_loop.h"
#include "bench/first_token.h"
#include "bench/open_streams.h"
#include "bench/process_meter.h"
#include "bench/request_bytes.h"
#include "bench/scenario.h"

namespace millrace::bench {
namespace {

struct Options {
  uint16_t port = 0;
  std::string uds;
  pid_t pid = 0;
  int server_core = 0;
  std::vector<std::string> scenarios;
  double seconds = 5;
  size_t num_connections = 64;
  int64_t num_output_tokens = 512;
  double load = 0.5;
  bool is_chat = false;
  bool measures_limit = false;
  OpenStreamsOptions open_streams;
  std::string json_file;
};

class Run {
 public:
  Run(Options options, ServerUnderLoad target)
      : options_(std::move(options)), target_(std::move(target)) {}

  // False: there is no scenario of this name.
  bool measure(const std::string& name) {
    if (name == "streams") {
      closed_loop(
          name, stream_workload(target_.model, options_.is_chat, options_.num_output_tokens)
      );
    } else if (name == "requests") {
      closed_loop(name, whole_workload(target_.model, options_.is_chat));
    } else if (name == "refusals") {
      closed_loop(name, refusal_workload(target_.model));
      Workload pipelined = refusal_workload(target_.model);
      pipelined.num_pipelined = 16;
      closed_loop("refusals_pipelined", std::move(pipelined));
    } else if (name == "open_streams") {
      OpenStreamsOptions options = options_.open_streams;
      options.is_chat = options_.is_chat;
      take(name, measure_open_streams(target_, options));
      if (options_.measures_limit) open_streams_limit(options);
    } else if (name == "first_token") {
      first_token(16);
      first_token(options_.num_output_tokens);
    } else if (name == "idle") {
      take(name, measure_idle(target_, 100, options_.seconds));
    } else {
      return false;
    }
    return true;
  }

  bool has_failed() const { return has_failed_; }

 private:
  void closed_loop(const std::string& name, Workload workload) {
    workload.num_connections = options_.num_connections;
    take(name, measure_closed_loop(target_, workload, name, options_.seconds));
    if (!options_.measures_limit) return;
    limit(name, workload, false);
    if (workload.kind == AnswerKind::kStream) limit(name, workload, true);
  }

  // The same client and the same bytes, with a server that does nothing for them.
  void limit(const std::string& name, Workload workload, bool is_piecewise) {
    workload.requests.resize(1);
    const std::string scenario = name + (is_piecewise ? "_limit_one_send_an_event" : "_limit");
    const Result<CannedAnswer> answer = canned_answer(target_, workload, is_piecewise);
    if (!answer) return take(scenario, answer.error());
    const Result<CannedServer> server =
        CannedServer::start(*answer, target_.address, options_.server_core);
    if (!server) return take(scenario, server.error());
    const ServerUnderLoad canned{
        .address = server->address(), .pid = server->pid(), .model = target_.model};
    take(scenario, measure_closed_loop(canned, workload, scenario, options_.seconds));
  }

  // As many connections, and as many sends as a core can do; then at the streams' pace, which tells
  // how much of the jitter is the machine's own.
  void open_streams_limit(const OpenStreamsOptions& options) {
    constexpr int64_t kNumTokens = 64;  // the answer is fetched at the streams' pace
    Workload workload = stream_workload(target_.model, options_.is_chat, kNumTokens);
    workload.num_connections = options_.open_streams.num_streams;
    limit("open_streams", workload, true);

    const std::string scenario = "open_streams_limit";
    Result<CannedAnswer> answer = canned_answer(target_, workload, true);
    if (!answer) return take(scenario, answer.error());
    answer->num_request_bytes = open_streams_request(target_.model, options).size();
    answer->pieces.resize(2);  // the head with the first event, and the second
    answer->period = std::chrono::nanoseconds(std::llround(1e9 / options.tokens_per_second));
    const Result<CannedServer> server =
        CannedServer::start(*answer, target_.address, options_.server_core);
    if (!server) return take(scenario, server.error());
    const ServerUnderLoad canned{
        .address = server->address(), .pid = server->pid(), .model = target_.model};
    Result<Report> report = measure_open_streams(canned, options);
    if (report) report->scenario = scenario;
    take(scenario, report);
  }

  // At a share of what the server can do of these very requests with a core of its own.
  void first_token(int64_t num_output_tokens) {
    Workload workload = stream_workload(target_.model, options_.is_chat, num_output_tokens);
    workload.num_connections = options_.num_connections;
    const Result<Report> capacity = measure_closed_loop(target_, workload, "capacity", 2);
    if (!capacity) return take("first_token", capacity.error());
    const double events_per_core_s = capacity->figures[1].value;
    take(
        "first_token",
        measure_first_token(
            target_,
            {.requests_per_second =
                 options_.load * events_per_core_s / static_cast<double>(num_output_tokens),
             .num_output_tokens = num_output_tokens,
             .seconds = options_.seconds,
             .is_chat = options_.is_chat}
        )
    );
  }

  void take(const std::string& name, const Result<Report>& report) {
    if (!report) {
      has_failed_ = true;
      fmt::print("{}\n  NOT MEASURED: {}\n", name, report.error().message);
      std::fflush(stdout);
      return;
    }
    fmt::print("{} ({})\n", report->scenario, report->setting);
    json::object line{{"scenario", report->scenario}, {"setting", report->setting}};
    for (const Figure& figure : report->figures) {
      fmt::print("  {:<28} {:>16}\n", figure.name, readable(figure.value));
      line[figure.name] = figure.value;
    }
    std::fflush(stdout);
    if (!options_.json_file.empty()) write_json(to_json_text(line));
  }

  static std::string readable(double value) {
    if (value < 1000) return fmt::format("{:.3f}", value);
    const std::string whole = fmt::format("{:.0f}", value);
    std::string digits;
    for (size_t i = 0; i < whole.size(); ++i) {
      if (i > 0 && (whole.size() - i) % 3 == 0) digits += ',';
      digits += whole[i];
    }
    return digits;
  }

  void write_json(const std::string& line) {
    FILE* file = std::fopen(options_.json_file.c_str(), "a");
    if (file == nullptr || std::fprintf(file, "%s\n", line.c_str()) < 0) has_failed_ = true;
    if (file != nullptr && std::fclose(file) != 0) has_failed_ = true;
  }

  Options options_;
  ServerUnderLoad target_;
  bool has_failed_ = false;
};

void add_flags(CLI::App& app, Options& options) {
  auto* port = app.add_option("--port", options.port, "of the server, on 127.0.0.1");
  app.add_option("--uds", options.uds, "the server's Unix socket instead")->excludes(port);
  app.add_option("--pid", options.pid, "of the server: its CPU time and memory")->required();
  app.add_option(
         "--scenario",
         options.scenarios,
         "streams, requests, refusals, first_token, open_streams, idle; more than once, or by "
         "commas"
  )
      ->delimiter(',')
      ->required();
  app.add_option("--seconds", options.seconds, "of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--connections", options.num_connections, "of the closed loops")
      ->check(CLI::Range(1, 60000));
  app.add_option("--output-tokens", options.num_output_tokens, "of a stream")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--load", options.load, "of first_token: share of the server core's capacity")
      ->check(CLI::Range(0.01, 0.95));
  app.add_flag("--chat", options.is_chat, "/v1/chat/completions instead of /v1/completions");
  app.add_flag(
      "--limit",
      options.measures_limit,
      "also measure a server that sends the same bytes and does nothing else"
  );
  app.add_option("--server-core", options.server_core, "where that server runs");
  OpenStreamsOptions& open = options.open_streams;
  app.add_option("--open-streams", open.num_streams)->check(CLI::Range(1, 60000));
  app.add_option("--open-streams-rate", open.tokens_per_second, "what the server was started with")
      ->check(CLI::PositiveNumber);
  app.add_option("--open-streams-seconds", open.seconds)->check(CLI::PositiveNumber);
  app.add_option_function<int64_t>(
         "--open-streams-rest-us",
         [&open](int64_t rest) { open.rest_time = std::chrono::microseconds(rest); },
         "sleep so long between looks at what came, for a client without a core of its own"
  )
      ->check(CLI::Range(0, 10000));
  app.add_option("--json", options.json_file, "a file to which one line is added a measurement");
}

int run(int argc, char** argv) {
  CLI::App app("Measures the front end of a server that speaks OpenAI's API.");
  Options options;
  add_flags(app, options);
  CLI11_PARSE(app, argc, argv);
  raise_open_files_limit();
  http::Address address = http::TcpAddress{.host = "127.0.0.1", .port = options.port};
  if (!options.uds.empty()) address = http::UnixAddress{options.uds};
  const Result<std::string> models = fetch(address, get_request("/v1/models"), 200);
  const Result<std::string> model = models ? first_model_id(*models) : models.error();
  if (!model) {
    fmt::print(stderr, "frontend_load: /v1/models: {}\n", model.error().message);
    return 1;
  }
  Run measurement(options, {.address = address, .pid = options.pid, .model = *model});
  for (const std::string& name : options.scenarios) {
    if (!measurement.measure(name)) {
      fmt::print(stderr, "frontend_load: there is no scenario '{}'\n", name);
      return 2;
    }
  }
  return measurement.has_failed() ? 1 : 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  return millrace::bench::run(argc, argv);
}
