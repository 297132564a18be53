// What `millrace bench engine` measures and makes of it: a real tiny model runs every case; the
// arithmetic is checked on times that are given. How fast anything is, is not tested.
#include "bench/engine_speed.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "base/json.h"
#include "bench/engine_report.h"
#include "kernels/machine_limits.h"
#include "model/cpu_model.h"
#include "model/model_test_data.h"

namespace millrace::bench {
namespace {

constexpr size_t kSmallBuffer = size_t{1} << 20;

std::unique_ptr<CpuModel> tiny_model(ThreadPool& pool, const SpeedLayout& layout) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen2);
  CpuModelOptions options;
  options.num_blocks = 3 * layout.blocks_per_sequence;
  options.block_size = layout.block_size;
  options.max_model_len = layout.blocks_per_sequence * layout.block_size;
  options.max_num_batched_tokens = layout.max_num_batched_tokens;
  options.max_num_logits = 3;
  return *CpuModel::load(config, TinyWeights(config, 1), options, pool);
}

LimitReading read_limits(MachineLimits& limits) {
  return {
      .read_bytes_per_s = limits.measure_read_bytes_per_second(),
      .operations_per_s = limits.measure_operations_per_second(DotInstruction::kMulpsAddps)};
}

SpeedPlan tiny_plan() {
  SpeedPlan plan;
  plan.layout = {
      .block_size = 16, .blocks_per_sequence = 5, .max_num_batched_tokens = 24, .vocab_size = 103};
  plan.cases = {
      {SpeedPhase::kPrefill, 1, 0, 30},
      {SpeedPhase::kPrefill, 3, 40, 30},
      {SpeedPhase::kDecode, 1, 0, 6},
      {SpeedPhase::kDecode, 3, 40, 6},
  };
  plan.num_repetitions = 3;
  plan.work_of = [](const ForwardBatch& batch) {
    return forward_work(
        tiny_config(ModelFamily::kQwen2), {.step_weights = 1000, .kv_per_token = 10}, {}, batch
    );
  };
  return plan;
}

// The model itself checks every batch: positions, slots, blocks and limits.
TEST(EngineSpeed, RunsEveryCaseAsOftenAsAsked) {
  ThreadPool pool(2);
  SpeedPlan plan = tiny_plan();
  std::set<std::string> shown;
  double last = 0.0;
  plan.on_progress = [&](double fraction, const std::string& what) {
    EXPECT_GE(fraction, last) << "never backwards";
    last = fraction;
    shown.insert(what);
  };
  const std::unique_ptr<CpuModel> model = tiny_model(pool, plan.layout);
  MachineLimits limits = *MachineLimits::prepare(pool, best_isa(), kSmallBuffer);
  plan.read_limits = [&limits] { return read_limits(limits); };
  const std::vector<SpeedResult> results = measure_speed(*model, plan, {});
  ASSERT_EQ(results.size(), 4U);
  for (const SpeedResult& result : results) {
    EXPECT_EQ(result.samples.size(), 3U);
    for (const SpeedSample& sample : result.samples) {
      EXPECT_GT(sample.seconds, 0.0);
      EXPECT_GT(sample.read_bytes_per_s, 0.0);
      EXPECT_GT(sample.operations_per_s, 0.0);
    }
    EXPECT_GT(summarize_speed(result).limit_share, 0.0);
  }
  EXPECT_EQ(results[0].num_steps, 2);
  EXPECT_EQ(results[0].work.weight_bytes, 2000.0);
  EXPECT_EQ(results[3].num_steps, 6);
  EXPECT_EQ(results[3].work.kv_bytes, 3 * (41 + 42 + 43 + 44 + 45 + 46) * 10.0);
  EXPECT_TRUE(shown.contains("decode, batch 3, context 40"));
}

// A runner that draws tokens: says what it was asked, and computes nothing.
class DrawingRunner : public ModelRunner {
 public:
  int64_t vocab_size() const override { return 103; }
  int64_t max_model_len() const override { return 80; }
  int32_t block_size() const override { return 16; }
  int32_t num_blocks() const override { return 15; }
  int32_t num_hidden_slots() const override { return 0; }
  std::span<const float> forward(const ForwardBatch& batch) override {
    EXPECT_TRUE(batch.draws.empty());
    EXPECT_EQ(num_under_way_, 0);
    return {};
  }
  bool draws_tokens() const override { return true; }
  void launch(const ForwardBatch& batch) override {
    EXPECT_EQ(batch.draws.size(), batch.logit_rows.size());
    largest_num_under_way_ = std::max(largest_num_under_way_, ++num_under_way_);
  }
  StepResult wait() override {
    EXPECT_GT(num_under_way_, 0);
    --num_under_way_;
    return {};
  }

  int num_under_way_ = 0;
  int largest_num_under_way_ = 0;
};

TEST(EngineSpeed, GivesARunnerThatDrawsTheNextStepAhead) {
  SpeedPlan plan = tiny_plan();
  plan.read_limits = [] { return LimitReading{1.0, 1.0}; };
  DrawingRunner runner;
  const auto results = measure_speed(runner, plan, {});
  EXPECT_EQ(results[3].samples.size(), 3U);
  EXPECT_EQ(runner.num_under_way_, 0) << "nothing is left";
  EXPECT_EQ(runner.largest_num_under_way_, 2);
  std::stop_source stop;
  stop.request_stop();
  measure_speed(runner, plan, stop.get_token());
  EXPECT_EQ(runner.num_under_way_, 0);
}

TEST(EngineSpeed, StopsWithWhatItHas) {
  ThreadPool pool(1);
  SpeedPlan plan = tiny_plan();
  std::stop_source stop;
  int num_shown = 0;
  plan.on_progress = [&](double, const std::string&) {
    if (++num_shown == 7) stop.request_stop();  // the warm-up, and then the sixth run
  };
  const std::unique_ptr<CpuModel> model = tiny_model(pool, plan.layout);
  MachineLimits limits = *MachineLimits::prepare(pool, best_isa(), kSmallBuffer);
  plan.read_limits = [&limits] { return read_limits(limits); };
  const auto results = measure_speed(*model, plan, stop.get_token());
  EXPECT_EQ(results[0].samples.size(), 2U);
  EXPECT_EQ(results[1].samples.size(), 1U);
  EXPECT_EQ(results[3].samples.size(), 1U);
}

SpeedResult given_result() {
  SpeedResult result;
  result.speed_case = {SpeedPhase::kDecode, 2, 0, 10};
  result.num_steps = 10;
  result.work = {
      .weight_bytes = 1.5e9,
      .kv_bytes = 0.5e9,
      .matrix_operations = 3e9,
      .attention_operations = 1e9};
  result.samples = {{0.1, 40e9, 1e12}, {0.2, 20e9, 1e12}};
  return result;
}

TEST(SpeedSummary, ComparesEachRunWithTheLimitsAroundIt) {
  const SpeedSummary summary = summarize_speed(given_result());
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, (200.0 + 100.0) / 2);
  EXPECT_NEAR(summary.tokens_per_s_std.value(), 70.7107, 1e-4) << "of a sample";
  EXPECT_DOUBLE_EQ(summary.step_ms, 15.0);
  EXPECT_DOUBLE_EQ(summary.read_gb_per_s, 30.0);
  EXPECT_DOUBLE_EQ(summary.peak_tflop_per_s, 1.0);
  EXPECT_EQ(summary.limit, SpeedLimit::kBandwidth);
  EXPECT_DOUBLE_EQ(summary.limit_share, 0.5) << "2 GB of 4 GB that could be read, twice";
}

TEST(SpeedSummary, NamesTheLimitThatIsNearer) {
  SpeedResult result = given_result();
  result.work.matrix_operations = 99e9;
  const SpeedSummary summary = summarize_speed(result);
  EXPECT_EQ(summary.limit, SpeedLimit::kCompute);
  EXPECT_DOUBLE_EQ(summary.limit_share, (1.0 + 0.5) / 2) << "with attention's operations";
  result.samples.pop_back();
  EXPECT_FALSE(summarize_speed(result).tokens_per_s_std) << "one run has no spread";
}

TEST(SpeedReport, HasTheKeysThatAreDocumentedFirst) {
  SpeedResult unmeasured = given_result();
  unmeasured.samples.clear();
  const SpeedSubject subject = {
      .model = "m",
      .dtype = DType::kBFloat16,
      .isa = "avx2",
      .peak = "mulps + addps xmm",
      .num_threads = 2};
  const std::string text = speed_json_lines(subject, {given_result(), unmeasured});
  ASSERT_EQ(std::ranges::count(text, '\n'), 1) << "a line for each case that was measured";
  const json::value value = *parse_json(text.substr(0, text.size() - 1));
  const std::vector<std::string> expected = {
      "phase",
      "batch_size",
      "context_len",
      "tokens_per_s",
      "tokens_per_s_std",
      "read_gb_per_s",
      "peak_tflop_per_s",
      "limit_share",
      "quantization"};
  std::vector<std::string> keys;
  for (const auto& member : value.as_object()) keys.emplace_back(member.key());
  ASSERT_GE(keys.size(), expected.size());
  keys.resize(expected.size());
  EXPECT_EQ(keys, expected);
  EXPECT_EQ(value.at("phase").as_string(), "decode");
  EXPECT_EQ(value.at("limit").as_string(), "bandwidth");
  EXPECT_EQ(value.at("quantization").as_string(), "none");
  EXPECT_DOUBLE_EQ(value.at("weight_bytes").to_number<double>(), 1.5e8) << "of a step";
  EXPECT_DOUBLE_EQ(value.at("attention_flop_share").to_number<double>(), 0.25);
}

// It was 0, as if all runs had been the same.
TEST(SpeedReport, SaysNothingOfTheSpreadOfOneRun) {
  SpeedResult once = given_result();
  once.samples.pop_back();
  const std::string line = speed_json_lines({}, {once});
  EXPECT_TRUE(parse_json(line.substr(0, line.size() - 1))->at("tokens_per_s_std").is_null());
  EXPECT_NE(speed_markdown({}, {once}).find("| 200.0 |  | 10.00 |"), std::string::npos);
}

TEST(SpeedReport, IsATableOfMarkdown) {
  SpeedResult unmeasured = given_result();
  unmeasured.samples.clear();
  const SpeedSubject subject = {
      .model = "m",
      .quantization = "int8",
      .isa = "avx2",
      .peak = "mulps + addps xmm",
      .num_threads = 2};
  const std::string text = speed_markdown(subject, {given_result(), unmeasured});
  EXPECT_TRUE(text.starts_with("m: int8, 2 threads, avx2; peak of mulps + addps xmm\n")) << text;
  std::vector<int64_t> columns;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('|')) columns.push_back(std::ranges::count(line, '|'));
  }
  EXPECT_EQ(columns, std::vector<int64_t>(3, 12)) << "head, rule and one row";
  EXPECT_NE(text.find("| decode | 2 | 0 | 10 | 150.0 | 70.7 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| bandwidth | 50.0 % |"), std::string::npos) << text;
}

}  // namespace
}  // namespace millrace::bench
