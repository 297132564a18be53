// Rows of vLLM's and SGLang's clients: one flat JSON object each.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

#include "report/import_parts.h"

namespace millrace::bench {
namespace {

struct NamedMetric {
  std::string_view name;
  Metric metric;
};

// How many samples of a metric so many completed requests have, as far as the totals tell.
std::optional<int64_t> num_samples(const PointSummary& row, Metric metric) {
  if (metric != Metric::kItl) return row.num_completed;
  if (!row.num_output_tokens || !row.num_completed) return std::nullopt;
  return *row.num_output_tokens - *row.num_completed;
}

void read_metrics(Fields& fields, std::span<const NamedMetric> metrics, PointSummary& row) {
  for (const NamedMetric& named : metrics) {
    row[named.metric] = read_flat_distribution(fields, named.name, num_samples(row, named.metric));
  }
}

void read_totals(Fields& fields, PointSummary& row) {
  row.duration_s = fields.number("duration");
  row.num_completed = fields.count("completed");
  row.num_failed = fields.count("failed");
  row.num_input_tokens = fields.count("total_input_tokens");
  row.num_output_tokens = fields.count("total_output_tokens");
  row.request_throughput = fields.number("request_throughput");
  row.input_throughput = fields.number("input_throughput");
  row.output_throughput = fields.number("output_throughput");
  row.peak_output_throughput = fields.number("max_output_tokens_per_s");
  row.peak_concurrency = fields.count("max_concurrent_requests");
}

void read_load(Fields& fields, LoadPlan& load) {
  if (const std::optional<double> rate = fields.rate("request_rate")) load.request_rate = *rate;
  if (const std::optional<double> burstiness = fields.rate("burstiness")) {
    load.burstiness = *burstiness;
  }
  load.max_concurrency = fields.count("max_concurrency");
  if (std::isfinite(load.request_rate)) {
    load.kind = LoadKind::kGamma;
  } else {
    load.kind = load.max_concurrency ? LoadKind::kConcurrency : LoadKind::kBurst;
  }
  load.ramp = fields.text("ramp_up_strategy");
  load.ramp_start_rps = fields.number("ramp_up_start_rps").value_or(0.0);
  load.ramp_end_rps = fields.number("ramp_up_end_rps").value_or(0.0);
}

// --metadata K=V: words between the number of prompts and the rate, in the order of the file.
void read_metadata(Fields& fields, PointPlan& plan) {
  bool is_between = false;
  for (const json::key_value_pair& entry : fields.all()) {
    const std::string_view key = entry.key();
    if (key == "request_rate") return;
    if (is_between && entry.value().is_string()) {
      plan.metadata.emplace_back(key, entry.value().get_string());
    }
    if (key == "num_prompts") is_between = true;
  }
  // No rate: then nothing says where the metadata ended.
  plan.metadata.clear();
}

std::string load_name(const LoadPlan& load) {
  if (load.kind == LoadKind::kTrace) return "trace";
  if (std::isfinite(load.request_rate)) return fmt::format("{} req/s", load.request_rate);
  if (load.max_concurrency) return fmt::format("concurrency {}", *load.max_concurrency);
  return "inf req/s";
}

std::string section_of(const PointPlan& plan) {
  std::string section = plan.framework.empty() ? plan.backend : plan.framework;
  const std::string& what = plan.model.empty() ? plan.dataset.name : plan.model;
  if (!what.empty()) section += (section.empty() ? "" : ", ") + what;
  return section;
}

}  // namespace

Result<ImportedRow> import_vllm_row(Fields& fields) {
  constexpr std::array<NamedMetric, 6> kMetrics = {{
      {"ttft", Metric::kTtft},
      {"tpot", Metric::kTpot},
      {"itl", Metric::kItl},
      {"e2el", Metric::kE2e},
      {"client_queue_time", Metric::kQueueTime},
      {"e2el_including_client_queue", Metric::kE2eScheduled},
  }};
  ImportedRow imported;
  PointSummary& row = imported.summary;
  PointPlan& plan = row.plan;
  row.formulas = Formulas::kVllm;
  row.started_unix_ns = parse_compact_date(fields.text("date"));
  plan.backend = fields.text("backend");
  plan.label = fields.text("label");
  plan.model = fields.text("model_id");
  plan.tokenizer = fields.text("tokenizer_id");
  plan.framework = fields.text("framework");
  plan.num_prompts = fields.count("num_prompts").value_or(0);
  read_metadata(fields, plan);
  read_load(fields, plan.load);
  plan.name = load_name(plan.load);
  read_totals(fields, row);
  row.total_throughput = fields.number("total_token_throughput");
  // 2025's files have the colon in the key.
  row.request_goodput = fields.number("request_goodput");
  if (!row.request_goodput) row.request_goodput = fields.number("request_goodput:");
  read_metrics(fields, kMetrics, row);
  imported.section = section_of(plan);
  if (fields.error()) return *fields.error();
  return imported;
}

Result<ImportedRow> import_sglang_row(Fields& fields) {
  constexpr std::array<NamedMetric, 4> kMetrics = {{
      {"e2e_latency", Metric::kE2e},
      {"ttft", Metric::kTtft},
      {"tpot", Metric::kTpot},
      {"itl", Metric::kItl},
  }};
  ImportedRow imported;
  PointSummary& row = imported.summary;
  PointPlan& plan = row.plan;
  row.formulas = Formulas::kSglang;
  plan.tag = fields.text("tag");
  plan.backend = fields.text("backend");
  plan.dataset.name = fields.text("dataset_name");
  read_load(fields, plan.load);
  const json::value* rate = fields.all().if_contains("request_rate");
  if (rate != nullptr && rate->is_string() && rate->get_string() == "trace") {
    plan.load.kind = LoadKind::kTrace;
  }
  plan.name = load_name(plan.load);
  plan.dataset.sharegpt_output_len = fields.count("sharegpt_output_len");
  if (plan.dataset.name.starts_with("random")) {
    plan.dataset.input_len = fields.count("random_input_len");
    plan.dataset.output_len = fields.count("random_output_len");
    plan.dataset.range_ratio = fields.number("random_range_ratio").value_or(0.0);
    plan.dataset.range_ratio_mode = "sglang";
  }
  read_totals(fields, row);
  row.total_throughput = fields.number("total_throughput");
  row.concurrency = fields.number("concurrency");
  read_metrics(fields, kMetrics, row);
  if (const json::object* report = fields.object("cache_report")) {
    Fields cache(*report, fields.where());
    row.num_cached_tokens = cache.count("total_cached_tokens");
    if (const std::optional<double> percent = cache.number("cache_hit_rate_pct")) {
      row.prefix_hit_rate = *percent / 100.0;
    }
  }
  imported.section = section_of(plan);
  if (fields.error()) return *fields.error();
  return imported;
}

}  // namespace millrace::bench
