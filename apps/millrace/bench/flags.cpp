#include "bench/flags.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string_view>

#include "base/json.h"
#include "bench/flag_values.h"
#include "loadgen/server_probe.h"
#include "model_location.h"
#include "server/model_text.h"

namespace millrace::bench {
namespace {

struct Backend {
  std::string_view name;
  Protocol protocol;
  std::string_view endpoint;
};

// vLLM's names and SGLang's. Servers differ in what they call themselves, not in these three.
constexpr Backend kBackends[] = {
    {"openai", Protocol::kCompletions, "/v1/completions"},
    {"openai-chat", Protocol::kChat, "/v1/chat/completions"},
    {"vllm", Protocol::kCompletions, "/v1/completions"},
    {"vllm-chat", Protocol::kChat, "/v1/chat/completions"},
    {"sglang", Protocol::kGenerate, "/generate"},
    {"sglang-native", Protocol::kGenerate, "/generate"},
    {"sglang-oai", Protocol::kCompletions, "/v1/completions"},
    {"sglang-oai-chat", Protocol::kChat, "/v1/chat/completions"},
    {"lmdeploy", Protocol::kCompletions, "/v1/completions"},
    {"lmdeploy-chat", Protocol::kChat, "/v1/chat/completions"},
    {"tensorrt-llm", Protocol::kCompletions, "/v1/completions"},
    {"llama.cpp", Protocol::kCompletions, "/v1/completions"},
    {"millrace", Protocol::kCompletions, "/v1/completions"},
    {"millrace-chat", Protocol::kChat, "/v1/chat/completions"},
};

Result<const Backend*> backend_of(const std::string& name) {
  std::string names;
  for (const Backend& backend : kBackends) {
    if (backend.name == name) return &backend;
    names += (names.empty() ? "" : ", ") + std::string(backend.name);
  }
  return invalid_argument(
      fmt::format("--backend: there is no '{}'; expected one of {}", name, names), "--backend"
  );
}

Result<Metric> metric_of_flag(std::string_view name) {
  if (name == "ttft") return Metric::kTtft;
  if (name == "tpot") return Metric::kTpot;
  if (name == "itl") return Metric::kItl;
  if (name == "e2el" || name == "e2e") return Metric::kE2e;
  return invalid_argument(
      fmt::format("there is no metric '{}': expected ttft, tpot, itl or e2el", name)
  );
}

std::optional<double>& goal_of(Metric metric, Goals& goals) {
  switch (metric) {
    case Metric::kTtft:
      return goals.ttft_ms;
    case Metric::kTpot:
      return goals.tpot_ms;
    case Metric::kItl:
      return goals.itl_ms;
    default:
      return goals.e2e_ms;
  }
}

Result<void> take_goal(std::string_view text, Goals& goals) {
  const std::vector<std::string_view> parts = split(text, ':');
  const std::optional<double> limit =
      parts.size() == 2 ? parse_number<double>(parts[1]) : std::nullopt;
  if (!limit || !(*limit > 0.0)) {
    return invalid_argument(fmt::format("'{}': expected METRIC:MILLISECONDS", text));
  }
  const Result<Metric> metric = metric_of_flag(parts[0]);
  if (!metric) return metric.error();
  std::optional<double>& goal = goal_of(*metric, goals);
  if (goal) return invalid_argument(fmt::format("'{}': {} has a goal already", text, parts[0]));
  goal = limit;
  return {};
}

// "ttft:200 tpot:50": words within one argument, or several arguments.
Result<void> take_goals(const std::string& text, Goals& goals) {
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (auto taken = take_goal(word, goals); !taken) return taken.error();
  }
  return {};
}

void add_pairs(
    CommandLine& line,
    const std::string& names,
    std::vector<std::pair<std::string, std::string>>& pairs,
    const std::string& help
) {
  line.add_callback(
      names,
      [&pairs](const std::string& text) -> Result<void> {
        Result<std::pair<std::string, std::string>> pair = parse_assignment(text);
        if (!pair) return pair.error();
        pairs.push_back(*std::move(pair));
        return {};
      },
      help
  );
}

void add_rate(CommandLine& line, LoadFlags& flags) {
  line.add_value(
      "--request-rate",
      [&flags](const std::string& text) -> Result<void> {
        const Result<std::vector<double>> rates = parse_rates(text);
        if (!rates) return rates.error();
        if (rates->size() != 1) return invalid_argument("expected one rate");
        flags.request_rate = rates->front();
        return {};
      },
      "requests per second; inf: all at once (inf)"
  );
}

void add_ramp(CommandLine& line, LoadFlags& flags) {
  line.add_value(
      "--ramp-up-strategy",
      [&flags](const std::string& text) -> Result<void> {
        if (text != "linear" && text != "exponential") {
          return invalid_argument(fmt::format("'{}': expected linear or exponential", text));
        }
        flags.ramp = text == "linear" ? RampKind::kLinear : RampKind::kExponential;
        return {};
      },
      "the rate grows over the requests, linear or exponential"
  );
  line.add("--ramp-up-start-rps", flags.ramp_start_rps, "from so many a second");
  line.add("--ramp-up-end-rps", flags.ramp_end_rps, "to so many");
}

}  // namespace

void add_target_flags(CommandLine& line, TargetFlags& flags, bool with_framework) {
  line.add("--backend", flags.backend, "openai, openai-chat, vllm, sglang, ... (openai)");
  line.add("--base-url", flags.base_url, "http://HOST:PORT, https://... or unix:PATH");
  line.add("--host", flags.host, "where there is no --base-url (127.0.0.1)");
  line.add("--port", flags.port, "the same (8000)");
  line.add("--endpoint", flags.endpoint, "path (the backend's own)");
  line.add("--model,--served-model-name", flags.model, "name (the first of /v1/models)");
  line.add(
      "--tokenizer",
      flags.tokenizer,
      "directory, tokenizer.json, .gguf or smollm2 (the server's own /tokenize)"
  );
  if (with_framework) {
    line.add("--framework", flags.framework, "what reports call the server (the backend)");
  }
  line.add("--api-key", flags.api_key, "sent as a bearer token (OPENAI_API_KEY)")
      .set_environment("OPENAI_API_KEY");
  add_pairs(line, "--header", flags.headers, "NAME=VALUE; may be given several times");
  line.add(
      "--extra-body,--extra-request-body", flags.extra_body, "JSON object, added to each request"
  );
  line.add("--temperature", flags.temperature, "of sampling (0)");
  line.add("--top-p", flags.top_p, "of sampling");
  line.add("--top-k", flags.top_k, "of sampling");
  add_off_switch(
      line,
      "--disable-ignore-eos",
      flags.ignores_eos,
      "answers may end before their length; verdicts then do not ask for it"
  );
  line.add_switch(
      "--ignore-eos", [&flags] { flags.ignores_eos = true; }, "answers of exact length (on)"
  );
  add_off_switch(line, "--disable-stream", flags.is_streamed, "whole answers: no TTFT, no ITL");
  add_off_switch(line, "--insecure", flags.is_verified, "any TLS certificate will do");
  line.add("--ca-file", flags.ca_file, "PEM file of certificate authorities (the system's)");
  add_off_switch(line, "--no-server-metrics", flags.reads_metrics, "do not ask for /metrics");
  line.add("--request-timeout-sec", flags.request_timeout_s, "of one request (21600)");
  line.add("--ready-check-timeout-sec", flags.ready_timeout_s, "for the server to answer (10)");
  line.add("--pid", flags.pid, "of the server, for its CPU and memory (found by its port)");
}

void add_load_flags(CommandLine& line, LoadFlags& flags) {
  add_rate(line, flags);
  line.add("--burstiness", flags.burstiness, "gamma's shape: 1 is Poisson, inf equal gaps (1)");
  line.add("--max-concurrency,--concurrency", flags.max_concurrency, "most requests at once");
  add_ramp(line, flags);
}

void add_limit_flags(CommandLine& line, LoadFlags& flags) {
  line.add("--num-prompts,--request-count", flags.num_prompts, "how many requests");
  line.add("--max-seconds", flags.max_seconds, "nothing is sent after so long");
  line.add("--grace-sec", flags.grace_s, "what is under way then may take so long (60)");
  line.add("--num-warmups,--warmup-requests", flags.num_warmups, "requests before the clock");
  line.add("--max-errors", flags.max_errors, "give up after more than so many (-1: never)");
  line.add(
      "--precision",
      flags.precision,
      "end when the 95 % intervals of mean TTFT, ITL and throughput are within so many percent"
  );
  line.add_flag("--flush-cache", flags.flushes_cache, "empty the server's prefix cache before");
  line.add("--client-threads", flags.num_threads, "threads that send and receive (1)");
  line.add("--idle-timeout-sec", flags.idle_timeout_s, "for the server to become idle (60)");
}

void add_output_flags(CommandLine& line, OutputFlags& flags) {
  line.add("--output,-o", flags.report, "file for the report (stdout)");
  line.add("--records", flags.records, "file that every request is appended to (JSONL)");
  line.add("--html", flags.html, "file for a page with all charts");
  line.add_callback(
      "--metric-percentiles",
      [&flags](const std::string& text) -> Result<void> {
        for (const std::string_view part : split(text, ',')) {
          const std::optional<double> rank = parse_number<double>(part);
          if (!rank || !(*rank >= 0.0 && *rank <= 100.0)) {
            return invalid_argument(fmt::format("'{}': expected ranks of 0 to 100", part));
          }
          flags.metric_percentiles.push_back(*rank);
        }
        return {};
      },
      "percentiles beside the usual, 99.5,99.9"
  );
  line.add_callback(
      "--goodput",
      [&flags](const std::string& text) { return take_goals(text, flags.goals); },
      "'ttft:200 tpot:50 e2el:2000': milliseconds that good requests keep to"
  );
  line.add("--label", flags.label, "of the result");
  line.add("--tag", flags.tag, "of the result");
  add_pairs(line, "--metadata", flags.metadata, "KEY=VALUE of the result; several times");
  line.add("--price-per-hour", flags.price_per_hour, "of the server: cost per million tokens");
  line.add_size(
      "--weight-bytes", flags.weight_bytes, "that a decode step reads: share of the bandwidth"
  );
  line.add("--device", flags.device, "what the server runs on, as reports print it");
  line.add("--server-version", flags.version, "as reports print it (asked of the server)");
  line.add_flag("--strict", flags.is_strict, "exit code 4 where a row is not ok");
  add_off_switch(line, "--no-calibration", flags.calibrates, "do not measure the client's floor");
}

Result<Target> target_of(const TargetFlags& flags, const std::string& url) {
  const Result<const Backend*> backend = backend_of(flags.backend);
  if (!backend) return backend.error();
  Target target;
  std::string base = url.empty() ? flags.base_url : url;
  if (base.empty()) base = fmt::format("http://{}:{}", flags.host, flags.port);
  Result<http::BaseUrl> parsed = http::parse_base_url(base);
  if (!parsed) {
    const std::string flag = url.empty() ? "--base-url" : "--framework";
    return invalid_argument(fmt::format("{} '{}': {}", flag, base, parsed.error().message), flag);
  }
  target.url = *std::move(parsed);
  target.protocol = (*backend)->protocol;
  target.endpoint = flags.endpoint.empty() ? std::string((*backend)->endpoint) : flags.endpoint;
  // A base URL that ends in /v1, as OpenAI's clients have it, already holds the endpoint's start.
  if (target.url.path.ends_with("/v1") && target.endpoint.starts_with("/v1/")) {
    target.url.path.resize(target.url.path.size() - 3);
  }
  if (!target.endpoint.starts_with("/")) {
    return invalid_argument("--endpoint must start with '/'", "--endpoint");
  }
  if (!flags.extra_body.empty()) {
    Result<json::value> body = parse_json(flags.extra_body);
    if (!body || !body->is_object()) {
      return invalid_argument("--extra-body must be a JSON object", "--extra-body");
    }
    target.extra_body = std::move(body->as_object());
  }
  for (const auto& [name, value] : flags.headers) target.headers.push_back({name, value});
  target.model = flags.model;
  target.api_key = flags.api_key;
  target.sampling.temperature = flags.temperature.value_or(0.0);
  target.sampling.top_p = flags.top_p;
  target.sampling.top_k = flags.top_k;
  target.sampling.ignores_eos = flags.ignores_eos;
  target.is_streamed = flags.is_streamed;
  target.is_verified = flags.is_verified;
  target.ca_file = flags.ca_file;
  if (!(flags.request_timeout_s > 0.0 && flags.request_timeout_s < 1e7)) {
    return invalid_argument("--request-timeout-sec must be above 0", "--request-timeout-sec");
  }
  target.request_timeout =
      std::chrono::milliseconds(static_cast<int64_t>(flags.request_timeout_s * 1000.0));
  return target;
}

Result<std::shared_ptr<const TokenCodec>> codec_of(const TargetFlags& flags, const Target& target) {
  if (flags.tokenizer.empty()) return make_server_codec(target);
  const Result<std::string> path = locate_model(flags.tokenizer);
  if (!path) return Error{path.error().code, path.error().message, "--tokenizer"};
  Result<ModelText> text = load_model_text({.model = *path});
  if (!text) return Error{text.error().code, text.error().message, "--tokenizer"};
  auto tokenizer = std::make_shared<const Tokenizer>(std::move(text->tokenizer));
  return std::shared_ptr<const TokenCodec>(make_local_codec(std::move(tokenizer)));
}

}  // namespace millrace::bench
