#include "engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "engine/fake_model_runner.h"
#include "engine/forward_batch_builder.h"
#include "engine/reference_run.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

constexpr size_t kVocabSize = 24;

SchedulerConfig roomy() {
  return {
      .max_num_batched_tokens = 64,
      .long_prefill_token_threshold = 64,
      .max_num_seqs = 8,
      .max_logit_rows = 64,
      .max_model_len = 64,
      .block_size = 4,
      .num_blocks = 128,
      .eos_token_ids = {0},
  };
}

using Records = std::map<std::pair<uint64_t, int32_t>, SequenceRecord>;

struct Outcome {
  Records records;
  int64_t num_preemptions = 0;
};

Outcome run_all(
    const std::vector<Request>& requests, const SchedulerConfig& config, TokenId poison = -1
) {
  EngineCore core(
      config,
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .block_size = config.block_size,
          .num_blocks = config.num_blocks,
          .num_tokens_max = config.max_num_batched_tokens,
          .num_logit_rows_max = config.max_logit_rows,
          .poison = poison,
          .on_forward = {},
      })
  );
  for (const Request& request : requests) EXPECT_TRUE(core.add(request).ok());
  Outcome outcome;
  for (int i = 0; i < 10000 && !core.is_idle(); ++i) {
    for (const EngineEvent& event : core.step()) {
      outcome.records[{request_of(event).value, choice_of(event)}].append(event);
    }
    core.check_invariants();
  }
  EXPECT_TRUE(core.is_idle());
  outcome.num_preemptions = core.scheduler_stats().num_preemptions;
  return outcome;
}

// Prompts of 1 to 33 tokens, each with 12 output tokens under sampling.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (const size_t num_prompt_tokens : {1U, 33U, 4U, 5U, 17U, 8U}) {
    Request request{.id = RequestId{requests.size()}, .seed = 100 + requests.size()};
    for (size_t i = 0; i < num_prompt_tokens; ++i) {
      request.prompt.push_back(static_cast<TokenId>(1 + (i * 7 + requests.size()) % 20));
    }
    request.sampling.max_tokens = 12;
    request.sampling.ignore_eos = true;
    request.sampling.logprobs = 2;
    request.priority = static_cast<int32_t>(requests.size() % 3);
    requests.push_back(std::move(request));
  }
  requests[1].sampling.prompt_logprobs = 1;
  requests[2].sampling.n = 3;
  return requests;
}

void expect_as_alone(const std::vector<Request>& requests, const SchedulerConfig& config) {
  const Outcome outcome = run_all(requests, config);
  for (const Request& request : requests) {
    for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
      SCOPED_TRACE(::testing::Message() << "request " << request.id.value << "." << choice);
      const SequenceRecord& record = outcome.records.at({request.id.value, choice});
      const SequenceRecord alone = run_alone(request, choice, config, kVocabSize);
      EXPECT_EQ(record.tokens.size(), 12U);
      EXPECT_EQ(record.tokens, alone.tokens);
      EXPECT_EQ(record.logprobs, alone.logprobs);
      EXPECT_EQ(record.prompt_logprobs, alone.prompt_logprobs);
    }
  }
}

TEST(EngineCore, ARequestAloneSaysWhatTheModelSays) {
  for (const Request& request : mixed_requests()) expect_as_alone({request}, roomy());
}

TEST(EngineCore, BatchingChangesNothing) {
  expect_as_alone(mixed_requests(), roomy());
}

TEST(EngineCore, ChunkingChangesNothing) {
  for (const int32_t budget : {1, 3, 7, 64}) {
    SCOPED_TRACE(::testing::Message() << budget << " tokens a step");
    SchedulerConfig config = roomy();
    config.max_num_batched_tokens = budget;
    config.max_num_seqs = std::min(budget, config.max_num_seqs);
    config.max_logit_rows = config.max_num_seqs;
    expect_as_alone(mixed_requests(), config);
  }
}

TEST(EngineCore, BlockSizeChangesNothing) {
  for (const int32_t block_size : {1, 2, 3, 16, 64}) {
    SCOPED_TRACE(::testing::Message() << block_size << " tokens a block");
    SchedulerConfig config = roomy();
    config.block_size = block_size;
    expect_as_alone(mixed_requests(), config);
  }
}

TEST(EngineCore, PreemptionChangesNothing) {
  for (const SchedulingPolicy policy : {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority}) {
    SchedulerConfig config = roomy();
    config.policy = policy;
    config.block_size = 1;
    config.num_blocks = 46;  // hardly more than the longest sequence needs
    EXPECT_GT(run_all(mixed_requests(), config).num_preemptions, 0);
    expect_as_alone(mixed_requests(), config);
  }
}

TEST(EngineCore, TheChoicesOfARequestDiffer) {
  Request request{.id = RequestId{0}, .prompt = {1, 2, 3}, .seed = 5};
  request.sampling.n = 3;
  request.sampling.ignore_eos = true;
  const Records records = run_all({request}, roomy()).records;
  EXPECT_NE(records.at({0, 0}).tokens, records.at({0, 1}).tokens);
  EXPECT_NE(records.at({0, 1}).tokens, records.at({0, 2}).tokens);
}

TEST(EngineCore, LogitsThatAreNoNumbersEndOnlyTheirSequence) {
  std::vector<Request> requests = mixed_requests();
  requests[1].prompt[20] = 23;  // a request that also reads prompt logprobs
  requests[4].prompt.back() = 23;
  for (Request& request : requests) request.sampling.bad_words = {{23}};
  const Records records = run_all(requests, roomy(), 23).records;
  for (const auto& [key, record] : records) {
    const bool is_poisoned = key.first == 1 || key.first == 4;
    ASSERT_EQ(record.finished.size(), 1U);
    EXPECT_EQ(
        record.finished[0].reason, is_poisoned ? FinishReason::kError : FinishReason::kLength
    );
    EXPECT_EQ(record.tokens.size(), is_poisoned ? 0U : 12U);
  }
  EXPECT_EQ(records.size(), 8U);
  EXPECT_EQ(records.at({4, 0}).finished[0].error->code, ErrorCode::kInternal);
  EXPECT_EQ(
      records.at({4, 0}).finished[0].error->message,
      "the model's logits are not finite at positions 16 to 16"
  );
}

TEST(EngineCore, StampsTokensAfterTheForwardPassAndCountsSteps) {
  TimePoint now{};
  EngineCore core(
      roomy(),
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .num_blocks = 128,
          .on_forward = [&now] { now += std::chrono::seconds(3); },
      }),
      [&now] { return now; }
  );
  EXPECT_TRUE(core.step().empty());
  EXPECT_EQ(core.num_steps(), 0);
  Request request{.id = RequestId{0}, .prompt = {1, 2}};
  request.sampling.ignore_eos = true;
  ASSERT_TRUE(core.add(request).ok());
  const std::vector<EngineEvent> events = core.step();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<TokenEvent>(events[0]).when, TimePoint(std::chrono::seconds(3)));
  EXPECT_EQ(core.num_steps(), 1);
  EXPECT_EQ(core.last_step_time(), std::chrono::seconds(3));
}

TEST(ForwardBatchBuilder, FlattensSequencesInThePlansOrder) {
  Scheduler scheduler(roomy());
  Request first{.id = RequestId{0}, .prompt = {11, 12, 13, 14, 15}};
  Request second{.id = RequestId{1}, .prompt = {21, 22}};
  second.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(scheduler.add(first).ok());
  StepPlan plan = scheduler.plan(TimePoint{});
  scheduler.commit(plan, std::vector<StepOutcome>{SampledToken{.id = 16, .logprobs = {}}}, {});
  ASSERT_TRUE(scheduler.add(second).ok());

  const ForwardBatch batch = build_forward_batch(scheduler.plan(TimePoint{}));
  EXPECT_THAT(batch.token_ids, ElementsAre(16, 21, 22));
  EXPECT_THAT(batch.positions, ElementsAre(5, 0, 1));
  EXPECT_THAT(batch.slot_mapping, ElementsAre(5, 8, 9));  // blocks 0 and 1, and block 2, of 4
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 1, 3));
  EXPECT_THAT(batch.context_lens, ElementsAre(6, 2));
  EXPECT_EQ(batch.max_blocks_per_sequence, 2);
  EXPECT_THAT(batch.block_tables, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(
      batch.logit_rows,
      ElementsAre(LogitRow::of_token(0), LogitRow::of_token(1), LogitRow::of_token(2))
  );
}

}  // namespace
}  // namespace millrace
