#include "bench/engine_report.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>

#include "base/json.h"

namespace millrace::bench {
namespace {

std::string format_of(const SpeedSubject& subject) {
  return subject.quantization == "none" ? std::string(name_of(subject.dtype))
                                        : subject.quantization;
}

std::string place_of(const SpeedSubject& subject) {
  if (subject.num_threads == 0) return subject.device;
  return fmt::format("{} threads, {}", subject.num_threads, subject.isa);
}

json::object json_row(const SpeedSubject& subject, const SpeedResult& result) {
  const SpeedSummary summary = summarize_speed(result);
  const std::optional<double> std = summary.tokens_per_s_std;
  return {
      {"phase", name_of(result.speed_case.phase)},
      {"batch_size", result.speed_case.batch_size},
      {"context_len", result.speed_case.context_len},
      {"tokens_per_s", summary.tokens_per_s},
      {"tokens_per_s_std", std ? json::value(*std) : json::value()},
      {"read_gb_per_s", summary.read_gb_per_s},
      {"peak_tflop_per_s", summary.peak_tflop_per_s},
      {"limit_share", summary.limit_share},
      {"quantization", subject.quantization},
      {"limit", name_of(summary.limit)},
      {"dtype", name_of(subject.dtype)},
      {"device", subject.device},
      {"isa", subject.isa},
      {"threads", subject.num_threads},
      {"num_tokens", result.speed_case.num_tokens},
      {"step_ms", summary.step_ms},
      {"repetitions", result.samples.size()},
      {"weight_bytes", result.work.weight_bytes / static_cast<double>(result.num_steps)},
      {"kv_bytes", result.work.kv_bytes / static_cast<double>(result.num_steps)},
      {"attention_flop_share", result.work.attention_operations / result.work.operations()},
      {"peak_instruction", subject.peak},
      {"model", subject.model},
  };
}

}  // namespace

std::string speed_markdown(const SpeedSubject& subject, const std::vector<SpeedResult>& results) {
  std::string text = fmt::format(
      "{}: {}, {}; peak of {}\n\n"
      "| phase | batch | context | tokens | tokens/s | +- | ms/step | read GB/s | peak Tflop/s | "
      "limit | share |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n",
      subject.model,
      format_of(subject),
      place_of(subject),
      subject.peak
  );
  for (const SpeedResult& result : results) {
    if (result.samples.empty()) continue;
    const SpeedSummary summary = summarize_speed(result);
    fmt::format_to(
        std::back_inserter(text),
        "| {} | {} | {} | {} | {:.1f} | {} | {:.2f} | {:.1f} | {:.3f} | {} | {:.1f} % |\n",
        name_of(result.speed_case.phase),
        result.speed_case.batch_size,
        result.speed_case.context_len,
        result.speed_case.num_tokens,
        summary.tokens_per_s,
        summary.tokens_per_s_std ? fmt::format("{:.1f}", *summary.tokens_per_s_std) : "",
        summary.step_ms,
        summary.read_gb_per_s,
        summary.peak_tflop_per_s,
        name_of(summary.limit),
        summary.limit_share * 100.0
    );
  }
  return text;
}

std::string speed_json_lines(const SpeedSubject& subject, const std::vector<SpeedResult>& results) {
  std::string text;
  for (const SpeedResult& result : results) {
    if (!result.samples.empty()) text += to_json_text(json_row(subject, result)) + '\n';
  }
  return text;
}

}  // namespace millrace::bench
