// The blocks that SGLang's and vLLM's clients print at the end of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/figures.h"
#include "report/report.h"
#include "report/vllm_metrics.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kMissing = "-";

void add_line(std::string& text, std::string_view label, std::string_view value) {
  fmt::format_to(std::back_inserter(text), "{:<40} {:<10}\n", label, value);
}

void add_figure(std::string& text, std::string_view label, std::optional<double> value) {
  add_line(text, label, fixed(value, 2, kMissing));
}

void add_count(std::string& text, std::string_view label, std::optional<int64_t> value) {
  add_line(text, label, whole(value, kMissing));
}

void add_banner(std::string& text, std::string_view title) {
  fmt::format_to(std::back_inserter(text), "{:-^50}\n", title);
}

std::string sglang_rate(const LoadPlan& load) {
  if (load.kind == LoadKind::kTrace) return "trace";
  return python_float(load.request_rate);
}

struct SglangBlock {
  std::string_view banner;
  std::string_view name;
  Metric metric;
};

void add_sglang_block(std::string& text, const PointSummary& row, const SglangBlock& block) {
  add_banner(text, block.banner);
  add_figure(text, fmt::format("Mean {} (ms):", block.name), mean_of(row, block.metric));
  add_figure(
      text, fmt::format("Median {} (ms):", block.name), percentile_of(row, block.metric, 50.0)
  );
  for (const double rank : {90.0, 95.0, 99.0}) {
    add_figure(
        text,
        fmt::format("P{} {} (ms):", rank_word(rank), block.name),
        percentile_of(row, block.metric, rank)
    );
  }
  if (block.metric == Metric::kItl) {
    add_figure(text, fmt::format("Max {} (ms):", block.name), max_of(row, block.metric));
  }
}

}  // namespace

std::string sglang_console(const PointSummary& row) {
  std::string text = fmt::format("\n{:=^50}\n", " Serving Benchmark Result ");
  add_line(text, "Backend:", row.plan.backend);
  add_line(text, "Traffic request rate:", sglang_rate(row.plan.load));
  add_line(text, "Max request concurrency:", whole(row.plan.load.max_concurrency, "not set"));
  add_count(text, "Successful requests:", row.num_completed);
  add_figure(text, "Benchmark duration (s):", row.duration_s);
  add_count(text, "Total input tokens:", row.num_input_tokens);
  add_count(text, "Total input text tokens:", row.num_input_tokens);
  add_count(text, "Total generated tokens:", row.num_output_tokens);
  // The server's own count is used; nothing is tokenized again.
  add_count(text, "Total generated tokens (retokenized):", std::nullopt);
  add_figure(text, "Request throughput (req/s):", row.request_throughput);
  add_figure(text, "Input token throughput (tok/s):", row.input_throughput);
  add_figure(text, "Output token throughput (tok/s):", row.output_throughput);
  add_figure(text, "Peak output token throughput (tok/s):", row.peak_output_throughput);
  add_count(text, "Peak concurrent requests:", row.peak_concurrency);
  add_figure(text, "Total token throughput (tok/s):", row.total_throughput);
  add_figure(text, "Concurrency:", row.concurrency);
  constexpr SglangBlock kBlocks[] = {
      {"End-to-End Latency", "E2E Latency", Metric::kE2e},
      {"Time to First Token", "TTFT", Metric::kTtft},
      {"Time per Output Token (excl. 1st token)", "TPOT", Metric::kTpot},
      {"Inter-Token Latency", "ITL", Metric::kItl},
  };
  for (const SglangBlock& block : kBlocks) add_sglang_block(text, row, block);
  return text + std::string(50, '=') + '\n';
}

std::string vllm_console(const PointSummary& row, const VllmOptions& options) {
  std::string text = fmt::format("{:=^50}\n", " Serving Benchmark Result ");
  add_count(text, "Successful requests:", row.num_completed);
  add_count(text, "Failed requests:", row.num_failed);
  if (row.plan.load.max_concurrency) {
    add_count(text, "Maximum request concurrency:", row.plan.load.max_concurrency);
  }
  if (std::isfinite(row.plan.load.request_rate)) {
    add_figure(text, "Request rate configured (RPS):", row.plan.load.request_rate);
  }
  add_figure(text, "Benchmark duration (s):", row.duration_s);
  add_count(text, "Total input tokens:", row.num_input_tokens);
  add_count(text, "Total generated tokens:", row.num_output_tokens);
  add_figure(text, "Request throughput (req/s):", row.request_throughput);
  if (row.plan.goals.any() || row.request_goodput)
    add_figure(text, "Request goodput (req/s):", row.request_goodput);
  add_figure(text, "Output token throughput (tok/s):", row.output_throughput);
  add_figure(text, "Peak output token throughput (tok/s):", row.peak_output_throughput);
  std::optional<double> peak;
  if (row.peak_concurrency) peak = static_cast<double>(*row.peak_concurrency);
  add_figure(text, "Peak concurrent requests:", peak);
  add_figure(text, "Total token throughput (tok/s):", row.total_throughput);
  for (const VllmMetric& metric : vllm_metrics(row, options)) {
    add_banner(text, metric.banner);
    add_figure(text, fmt::format("Mean {} (ms):", metric.name), mean_of(row, metric.metric));
    add_figure(
        text, fmt::format("Median {} (ms):", metric.name), percentile_of(row, metric.metric, 50.0)
    );
    for (const double rank : options.ranks) {
      add_figure(
          text,
          fmt::format("P{} {} (ms):", rank_word(rank), metric.name),
          percentile_of(row, metric.metric, rank)
      );
    }
  }
  return text + std::string(50, '=') + '\n';
}

}  // namespace millrace::bench
