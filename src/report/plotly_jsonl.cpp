// The JSON lines of the published comparison over request rates: as vLLM's client of 2025 appends
// them, with the framework among them.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "report/figures.h"
#include "report/plotly_rates.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

// One object in one line, as Python's json.dumps writes it.
class PythonObject {
 public:
  void add_text(std::string_view key, std::string_view value) {
    add(key, to_json_text(json::value(value)));
  }
  void add_count(std::string_view key, std::optional<int64_t> value) {
    add(key, value ? std::to_string(*value) : "null");
  }
  void add_float(std::string_view key, std::optional<double> value) {
    add(key, value && std::isfinite(*value) ? python_float(*value) : "null");
  }
  std::string text() const { return fmt::format("{{{}}}", members_); }

 private:
  void add(std::string_view key, std::string_view value) {
    if (!members_.empty()) members_ += ", ";
    members_ += to_json_text(json::value(key));
    members_ += ": ";
    members_ += value;
  }

  std::string members_;
};

void add_plan(PythonObject& line, const PointSummary& row) {
  const PointPlan& plan = row.plan;
  line.add_text("date", compact_date(row.started_unix_ns));
  line.add_text("backend", plan.backend);
  line.add_text("model_id", plan.model);
  line.add_text("tokenizer_id", plan.tokenizer);
  line.add_count("num_prompts", plan.num_prompts);
  line.add_text("framework", plan.framework.empty() ? plan.backend : plan.framework);
  if (std::isfinite(plan.load.request_rate)) {
    line.add_float("request_rate", plan.load.request_rate);
  } else {
    line.add_text("request_rate", "inf");
  }
  line.add_float("burstiness", plan.load.burstiness);
  line.add_count("max_concurrency", plan.load.max_concurrency);
}

std::string rate_line(const PointSummary& row) {
  PythonObject line;
  add_plan(line, row);
  line.add_float("duration", row.duration_s);
  line.add_count("completed", row.num_completed);
  line.add_count("total_input_tokens", row.num_input_tokens);
  line.add_count("total_output_tokens", row.num_output_tokens);
  line.add_float("request_throughput", row.request_throughput);
  line.add_float("request_goodput:", row.request_goodput);  // the colon is vLLM's own of that year
  line.add_float("output_throughput", row.output_throughput);
  line.add_float("total_token_throughput", row.total_throughput);
  for (const Metric metric : kRateMetrics) {
    const std::string name = std::string(to_string(metric)) + "_ms";
    line.add_float("mean_" + name, mean_of(row, metric));
    line.add_float("median_" + name, percentile_of(row, metric, 50.0));
    line.add_float("std_" + name, std_of(row, metric));
    line.add_float("p99_" + name, percentile_of(row, metric, 99.0));
  }
  return line.text();
}

}  // namespace

std::string plotly_jsonl(std::span<const PointSummary> rows) {
  std::string text;
  for (const PointSummary& row : rows) text += rate_line(row) + "\n";
  return text;
}

}  // namespace millrace::bench
