// Each tool's formulas over one event log, against what the tool's own code says
// (tools/goldens/bench_formulas.py).
#include "results/formulas.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "results/record_file.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

constexpr double kRanks[] = {0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9};

json::object golden(const std::string& name) {
  const std::string path = MILLRACE_SOURCE_DIR "/tests/golden/bench/" + name;
  const Result<json::value> value = read_json_file(path);
  EXPECT_TRUE(value.ok()) << value.error().message;
  return value->as_object();
}

PointRecord golden_record() {
  const auto records = read_records(MILLRACE_SOURCE_DIR "/tests/golden/bench/record.jsonl");
  EXPECT_TRUE(records.ok()) << records.error().message;
  return records->front();
}

PointSummary summarize_golden(Formulas formulas) {
  return summarize(golden_record(), {.formulas = formulas, .num_resamples = 50});
}

double number(const json::object& object, std::string_view key) {
  return object.at(key).to_number<double>();
}

// The tools add up floating-point seconds; we have whole nanoseconds.
void expect_near(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, 1e-6 * std::max(1.0, std::abs(expected))) << what;
}

// vLLM's and SGLang's keys: mean_ttft_ms, ...
void expect_ms(
    const PointSummary& row, Metric metric, const json::object& golden, const std::string& name
) {
  ASSERT_TRUE(row[metric].has_value()) << name;
  expect_near(row[metric]->mean, number(golden, "mean_" + name + "_ms"), name);
  expect_near(row[metric]->median(), number(golden, "median_" + name + "_ms"), name);
  expect_near(row[metric]->std, number(golden, "std_" + name + "_ms"), name);
}

// numpy's, as describe() in the generator.
void expect_described(const PointSummary& row, Metric metric, const json::object& golden) {
  const std::string name(to_string(metric));
  ASSERT_TRUE(row[metric].has_value()) << name;
  EXPECT_EQ(static_cast<double>(row[metric]->count), number(golden, "count")) << name;
  expect_near(row[metric]->mean, number(golden, "mean"), name);
  expect_near(row[metric]->std, number(golden, "std"), name);
  expect_near(row[metric]->min, number(golden, "min"), name);
  expect_near(row[metric]->max, number(golden, "max"), name);
  const json::array& values = golden.at("percentiles").as_array();
  for (size_t i = 0; i < values.size(); ++i) {
    expect_near(row[metric]->percentile(kRanks[i]).value(), values[i].to_number<double>(), name);
  }
}

TEST(Formulas, OfVllmAreItsOwn) {
  const json::object vllm = golden("vllm.json");
  const PointSummary row = summarize_golden(Formulas::kVllm);
  EXPECT_EQ(row.num_completed, vllm.at("completed").as_int64());
  EXPECT_EQ(row.num_failed, vllm.at("failed").as_int64());
  EXPECT_EQ(row.num_input_tokens, vllm.at("total_input").as_int64());
  EXPECT_EQ(row.num_output_tokens, vllm.at("total_output").as_int64());
  expect_near(*row.request_throughput, number(vllm, "request_throughput"), "requests");
  expect_near(*row.request_goodput, number(vllm, "request_goodput"), "goodput");
  expect_near(*row.output_throughput, number(vllm, "output_throughput"), "output");
  expect_near(*row.total_throughput, number(vllm, "total_token_throughput"), "total");
  expect_near(*row.peak_output_throughput, number(vllm, "max_output_tokens_per_s"), "peak");
  EXPECT_EQ(row.peak_concurrency, golden("plain.json").at("vllm_peak_concurrency").as_int64());
  const std::pair<Metric, std::string> metrics[] = {
      {Metric::kTtft, "ttft"},
      {Metric::kTpot, "tpot"},
      {Metric::kItl, "itl"},
      {Metric::kE2e, "e2el"}};
  for (const auto& [metric, name] : metrics) {
    expect_ms(row, metric, vllm, name);
    for (const json::value& pair : vllm.at("percentiles_" + name + "_ms").as_array()) {
      const double rank = pair.as_array()[0].to_number<double>();
      expect_near(
          row[metric]->percentile(rank).value(), pair.as_array()[1].to_number<double>(), name
      );
    }
  }
}

TEST(Formulas, OfSglangAreItsOwn) {
  const json::object sglang = golden("sglang.json");
  const json::object plain = golden("plain.json");
  const PointSummary row = summarize_golden(Formulas::kSglang);
  EXPECT_EQ(row.num_completed, sglang.at("completed").as_int64());
  EXPECT_EQ(row.num_input_tokens, sglang.at("total_input").as_int64());
  EXPECT_EQ(row.num_output_tokens, sglang.at("total_output").as_int64());
  expect_near(*row.request_throughput, number(sglang, "request_throughput"), "requests");
  expect_near(*row.input_throughput, number(sglang, "input_throughput"), "input");
  expect_near(*row.output_throughput, number(sglang, "output_throughput"), "output");
  expect_near(*row.total_throughput, number(sglang, "total_throughput"), "total");
  expect_near(*row.concurrency, number(sglang, "concurrency"), "concurrency");
  EXPECT_EQ(row.peak_concurrency, plain.at("sglang_peak_concurrency").as_int64());
  expect_near(*row.peak_output_throughput, number(plain, "sglang_peak_output_throughput"), "peak");
  expect_ms(row, Metric::kTtft, sglang, "ttft");
  expect_ms(row, Metric::kTpot, sglang, "tpot");
  expect_ms(row, Metric::kItl, sglang, "itl");
  expect_ms(row, Metric::kE2e, sglang, "e2e_latency");
  expect_near(row[Metric::kItl]->max, number(sglang, "max_itl_ms"), "max itl");
  expect_near(row[Metric::kItl]->percentile(95).value(), number(sglang, "p95_itl_ms"), "p95 itl");
  expect_near(
      row[Metric::kE2e]->percentile(99).value(), number(sglang, "p99_e2e_latency_ms"), "p99 e2e"
  );
}

TEST(Formulas, OfSglangCountTokensOnItsNativeEndpoint) {
  PointRecord record = golden_record();
  record.plan.endpoint = "/generate";
  const PointSummary native = summarize(record, {.formulas = Formulas::kSglang});
  const PointSummary ours = summarize(record, {.num_resamples = 0});
  // Ours has the gaps of the unfinished request as well.
  EXPECT_GT(native[Metric::kItl]->count, native[Metric::kOutputLen]->count);
  EXPECT_LE(native[Metric::kItl]->count, ours[Metric::kItl]->count);
  EXPECT_NEAR(native[Metric::kItl]->mean, ours[Metric::kItl]->mean, 1.0);
}

TEST(Formulas, OfGuidellmAreItsOwn) {
  const json::object guidellm = golden("guidellm.json");
  const PointSummary row = summarize_golden(Formulas::kGuidellm);
  const struct {
    Metric metric;
    std::string name;
    double unit;  // of theirs, in ours
  } metrics[] = {
      {Metric::kE2e, "request_latency", 1000.0},
      {Metric::kTtft, "time_to_first_token_ms", 1.0},
      {Metric::kTpot, "time_per_output_token_ms", 1.0},
      {Metric::kItl, "inter_token_latency_ms", 1.0},
      {Metric::kInputLen, "prompt_token_count", 1.0},
      {Metric::kOutputLen, "output_token_count", 1.0},
  };
  const std::string_view ranks[] = {
      "p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999"};
  for (const auto& [metric, name, unit] : metrics) {
    const json::object& theirs = guidellm.at(name).as_object();
    ASSERT_TRUE(row[metric].has_value()) << name;
    EXPECT_EQ(row[metric]->count, theirs.at("count").as_int64()) << name;
    expect_near(row[metric]->mean, unit * number(theirs, "mean"), name);
    expect_near(row[metric]->std, unit * number(theirs, "std_dev"), name);
    expect_near(row[metric]->min, unit * number(theirs, "min"), name);
    expect_near(row[metric]->max, unit * number(theirs, "max"), name);
    const json::object& percentiles = theirs.at("percentiles").as_object();
    for (size_t i = 0; i < std::size(kRanks); ++i) {
      expect_near(
          row[metric]->percentile(kRanks[i]).value(),
          unit * number(percentiles, ranks[i]),
          name + " " + std::string(ranks[i])
      );
    }
  }
  expect_near(*row.request_throughput, number(guidellm, "requests_per_second"), "requests");
  expect_near(*row.output_throughput, number(guidellm, "output_tokens_per_second"), "output");
  expect_near(*row.input_throughput, number(guidellm, "prompt_tokens_per_second"), "input");
}

TEST(Formulas, OfAiperfAreItsOwn) {
  const json::object aiperf = golden("aiperf.json");
  const PointSummary row = summarize_golden(Formulas::kAiperf);
  const std::pair<Metric, std::string> metrics[] = {
      {Metric::kTtft, "ttft"},
      {Metric::kE2e, "request_latency"},
      {Metric::kItl, "inter_token_latency"},
      {Metric::kIcl, "inter_chunk_latency"}};
  for (const auto& [metric, name] : metrics) {
    const json::object& theirs = aiperf.at(name).as_object();
    ASSERT_TRUE(row[metric].has_value()) << name;
    EXPECT_EQ(row[metric]->count, theirs.at("count").as_int64()) << name;
    expect_near(row[metric]->mean, number(theirs, "avg"), name);
    expect_near(row[metric]->std, number(theirs, "std"), name);
    expect_near(row[metric]->min, number(theirs, "min"), name);
    expect_near(row[metric]->max, number(theirs, "max"), name);
    for (const int rank : {1, 5, 10, 25, 50, 75, 90, 95, 99}) {
      const double theirs_value = number(theirs, fmt::format("p{}", rank));
      expect_near(row[metric]->percentile(rank).value(), theirs_value, name);
    }
  }
  EXPECT_FALSE(row[Metric::kTpot].has_value());
}

TEST(Formulas, OfGuidellm01AreThoseOfItsTables) {
  const json::object theirs = golden("plain.json").at("guidellm01").as_object();
  const PointSummary row = summarize_golden(Formulas::kGuidellm01);
  expect_near(*row.duration_s, number(theirs, "duration"), "duration");
  expect_near(*row.request_throughput, number(theirs, "requests_per_second"), "requests");
  expect_near(*row.output_throughput, number(theirs, "output_throughput"), "output");
  expect_described(row, Metric::kTtft, theirs.at("ttft").as_object());
  expect_described(row, Metric::kItl, theirs.at("itl").as_object());
  expect_described(row, Metric::kE2e, theirs.at("e2e").as_object());
}

TEST(Formulas, OfThePublishedGridTrimEachCoroutine) {
  const json::object theirs = golden("plain.json").at("grid").as_object();
  const PointSummary row = summarize_golden(Formulas::kGrid);
  expect_near(*row.request_throughput, number(theirs, "rps"), "RPS");
  expect_near(*row.total_throughput, number(theirs, "tps"), "TPS");
  expect_near(row[Metric::kTtft]->mean, number(theirs, "ttft_ms"), "TTFT");
  expect_near(row[Metric::kE2e]->mean, number(theirs, "e2e_ms"), "E2E");
}

TEST(Formulas, OfOursCountEachTokenAndKeepTheUnfinished) {
  const json::object plain = golden("plain.json").at("ours").as_object();
  const PointSummary row = summarize_golden(Formulas::kMillrace);
  expect_described(row, Metric::kTpot, plain.at("tpot").as_object());
  expect_described(row, Metric::kItl, plain.at("itl").as_object());
  expect_described(row, Metric::kIcl, plain.at("icl").as_object());
  const std::pair<Metric, std::string> censored[] = {
      {Metric::kTtft, "ttft"}, {Metric::kE2e, "e2e"}, {Metric::kE2eScheduled, "e2e_scheduled"}};
  for (const auto& [metric, name] : censored) {
    const json::array& values = plain.at(name + "_percentiles").as_array();
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = row[metric]->percentile(kRanks[i]).value();
      if (values[i].is_null()) {
        EXPECT_EQ(value, std::numeric_limits<double>::infinity()) << name << kRanks[i];
      } else {
        expect_near(value, values[i].to_number<double>(), name);
      }
    }
  }
  EXPECT_EQ(row.num_unfinished, 2);
  expect_near(*row.output_throughput, number(plain, "output_throughput"), "output");
  expect_near(*row.peak_output_throughput, number(plain, "peak_output_throughput"), "peak");
  EXPECT_EQ(row.peak_concurrency, plain.at("peak_concurrency").as_int64());
  expect_near(*row.cost_per_million_tokens, 2.5 / 3600 / *row.output_throughput * 1e6, "cost");
}

}  // namespace
}  // namespace millrace::bench
