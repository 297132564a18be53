// The engine on a model of the emulated device, whose tokens are drawn there and whose steps are
// launched before the step before has ended, against the same model one step at a time with the
// host's sampler.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/model/cuda_model_test_data.h"
#include "engine/engine_core.h"
#include "engine/event_queue.h"
#include "engine/reference_run.h"

namespace millrace::cuda {
namespace {

// Hides that a model can draw, and counts the launches behind another.
class WatchedModel final : public ModelRunner {
 public:
  WatchedModel(std::unique_ptr<CudaModel> model, bool draws_tokens, int64_t& num_behind)
      : model_(std::move(model)), draws_tokens_(draws_tokens), num_behind_(num_behind) {}

  int64_t vocab_size() const override { return model_->vocab_size(); }
  int64_t max_model_len() const override { return model_->max_model_len(); }
  int32_t block_size() const override { return model_->block_size(); }
  int32_t num_blocks() const override { return model_->num_blocks(); }
  int32_t num_hidden_slots() const override { return model_->num_hidden_slots(); }
  bool draws_tokens() const override { return draws_tokens_; }
  std::span<const float> forward(const ForwardBatch& batch) override {
    return model_->forward(batch);
  }
  void launch(const ForwardBatch& batch) override {
    num_behind_ += num_launched_++ > 0 ? 1 : 0;
    model_->launch(batch);
  }
  StepResult wait() override {
    --num_launched_;
    return model_->wait();
  }

 private:
  std::unique_ptr<CudaModel> model_;
  bool draws_tokens_;
  int64_t& num_behind_;
  int num_launched_ = 0;
};

SchedulerConfig config_with(int32_t num_blocks) {
  return {
      .max_num_batched_tokens = 40,
      .long_prefill_token_threshold = 20,
      .max_num_seqs = 6,
      .max_logit_rows = 40,
      .max_model_len = 200,
      .block_size = kLimits.block_size,
      .num_blocks = num_blocks,
      .num_hidden_slots = kLimits.num_hidden_slots,
      .eos_token_ids = {0, 5},
  };
}

std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (uint64_t id = 0; id < 10; ++id) {
    Request request{.id = RequestId{id}, .prompt = random_tokens(3 + id * 7, id), .seed = 50 + id};
    SamplingParams& params = request.sampling;
    params.max_tokens = 20 + static_cast<int32_t>(id) * 5;
    params.temperature = id % 3 == 0 ? 0.0F : 0.9F;
    if (id % 3 == 1) params.top_k = 10;
    if (id % 4 == 2) params.top_p = 0.8F;
    if (id % 4 == 3) params.logprobs = 3;
    if (id == 4) params.repetition_penalty = 1.2F;
    if (id == 7) params.n = 2;
    requests.push_back(std::move(request));
  }
  requests[9].prompt = requests[8].prompt;  // an exact repeat: a hidden state, or a prefix
  return requests;
}

struct Outcome {
  std::map<std::pair<uint64_t, int32_t>, SequenceRecord> records;
  int64_t num_behind = 0;
  SchedulerStats stats;
};

Outcome run_all(int32_t num_blocks, bool draws_tokens) {
  Outcome outcome;
  EngineCore core(
      config_with(num_blocks),
      std::make_unique<WatchedModel>(
          load_cuda(tiny_config(ModelFamily::kQwen2), Launch::kGraphs),
          draws_tokens,
          outcome.num_behind
      )
  );
  for (const Request& request : mixed_requests()) EXPECT_TRUE(core.add(request).ok());
  for (int i = 0; i < 1000 && !core.is_idle(); ++i) {
    for (const EngineEvent& event : core.step()) {
      outcome.records[{request_of(event).value, choice_of(event)}].append(event);
    }
    core.check_invariants();
  }
  EXPECT_TRUE(core.is_idle());
  outcome.stats = core.scheduler_stats();
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.records.size(), expected.records.size());
  for (const auto& [key, record] : expected.records) {
    SCOPED_TRACE(::testing::Message() << "request " << key.first << "." << key.second);
    const SequenceRecord& other = found.records.at(key);
    EXPECT_EQ(other.tokens, record.tokens);
    EXPECT_EQ(other.finished.at(0).reason, record.finished.at(0).reason);
    ASSERT_EQ(other.logprobs.size(), record.logprobs.size());
    for (size_t t = 0; t < record.logprobs.size(); ++t) {
      ASSERT_EQ(other.logprobs[t].size(), record.logprobs[t].size());
      for (size_t n = 0; n < record.logprobs[t].size(); ++n) {
        EXPECT_EQ(other.logprobs[t][n].id, record.logprobs[t][n].id);
        EXPECT_NEAR(other.logprobs[t][n].logprob, record.logprobs[t][n].logprob, 1e-5);
      }
    }
  }
}

TEST(EngineOnDevice, SaysAheadWhatItSaysOneStepAtATime) {
  const Outcome expected = run_all(100, false);
  EXPECT_EQ(expected.num_behind, 0);
  EXPECT_EQ(expected.records.size(), 11);
  const Outcome ahead = run_all(100, true);
  EXPECT_GT(ahead.num_behind, 5);
  expect_same(ahead, expected);
}

// So few blocks that running sequences have to give theirs up.
TEST(EngineOnDevice, SaysTheSameWhenBlocksRunOut) {
  const Outcome expected = run_all(100, false);
  const Outcome ahead = run_all(12, true);
  EXPECT_GT(ahead.stats.num_preemptions, 0);
  EXPECT_GT(ahead.num_behind, 5);
  expect_same(ahead, expected);
}

}  // namespace
}  // namespace millrace::cuda
