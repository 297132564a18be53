// One line of what SGLang's bench_serving appends to its --output-file.
#include <fmt/format.h>

#include "report/figures.h"
#include "report/report.h"
#include "report/request_arrays.h"

namespace millrace::bench {
namespace {

void add_plan(json::object& out, const PointSummary& row) {
  const PointPlan& plan = row.plan;
  const DatasetPlan& dataset = plan.dataset;
  out["tag"] = text_or_null(plan.tag);
  out["backend"] = plan.backend;
  out["dataset_name"] = dataset.name;
  if (plan.load.kind == LoadKind::kTrace) {
    out["request_rate"] = "trace";
  } else {
    out["request_rate"] = rate_word(plan.load.request_rate);
  }
  out["max_concurrency"] = count_or_null(plan.load.max_concurrency);
  out["sharegpt_output_len"] = count_or_null(dataset.sharegpt_output_len);
  out["random_input_len"] = count_or_null(dataset.input_len);
  out["random_output_len"] = count_or_null(dataset.output_len);
  out["random_range_ratio"] = dataset.range_ratio;
  out["server_info"] = nullptr;
}

void add_totals(json::object& out, const PointSummary& row) {
  out["duration"] = number_or_null(row.duration_s);
  out["completed"] = count_or_null(row.num_completed);
  out["total_input_tokens"] = count_or_null(row.num_input_tokens);
  out["total_input_text_tokens"] = count_or_null(row.num_input_tokens);
  out["total_input_vision_tokens"] = 0;
  out["total_output_tokens"] = count_or_null(row.num_output_tokens);
  // The server's own count is used; nothing is tokenized again.
  out["total_output_tokens_retokenized"] = nullptr;
  out["request_throughput"] = number_or_null(row.request_throughput);
  out["input_throughput"] = number_or_null(row.input_throughput);
  out["output_throughput"] = number_or_null(row.output_throughput);
  out["total_throughput"] = number_or_null(row.total_throughput);
}

void add_metric(json::object& out, const PointSummary& row, std::string_view key, Metric metric) {
  const auto name = [&](std::string_view figure) { return fmt::format("{}_{}_ms", figure, key); };
  out[name("mean")] = number_or_null(mean_of(row, metric));
  out[name("median")] = number_or_null(percentile_of(row, metric, 50.0));
  out[name("std")] = number_or_null(std_of(row, metric));
  for (const double rank : {90.0, 95.0, 99.0}) {
    out[name(fmt::format("p{}", rank_word(rank)))] =
        number_or_null(percentile_of(row, metric, rank));
  }
}

void add_cache_report(json::object& out, const PointSummary& row) {
  if (!row.num_cached_tokens || !row.num_input_tokens) return;
  json::object report;
  report["total_prompt_tokens"] = *row.num_input_tokens;
  report["total_cached_tokens"] = *row.num_cached_tokens;
  if (*row.num_input_tokens > 0) {
    report["cache_hit_rate_pct"] = 100.0 * static_cast<double>(*row.num_cached_tokens) /
                                   static_cast<double>(*row.num_input_tokens);
  }
  out["cache_report"] = std::move(report);
}

void add_details(json::object& out, const PointRecord& record) {
  RequestArrays arrays = sglang_request_arrays(record);
  out["input_lens"] = std::move(arrays.input_lens);
  out["output_lens"] = std::move(arrays.output_lens);
  out["ttfts"] = std::move(arrays.ttfts);
  out["itls"] = std::move(arrays.itls);
  out["generated_texts"] = std::move(arrays.texts);
  out["errors"] = std::move(arrays.errors);
}

}  // namespace

std::string sglang_json(const PointSummary& row, const PointRecord* details) {
  json::object out;
  add_plan(out, row);
  add_totals(out, row);
  add_metric(out, row, "e2e_latency", Metric::kE2e);
  add_metric(out, row, "ttft", Metric::kTtft);
  add_metric(out, row, "tpot", Metric::kTpot);
  add_metric(out, row, "itl", Metric::kItl);
  out["concurrency"] = number_or_null(row.concurrency);
  out["accept_length"] = nullptr;
  out["max_output_tokens_per_s"] = number_or_null(row.peak_output_throughput);
  out["max_concurrent_requests"] = count_or_null(row.peak_concurrency);
  add_cache_report(out, row);
  if (details != nullptr) add_details(out, *details);
  return to_json_text(out);
}

}  // namespace millrace::bench
