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
constexpr float kHabit = 6.0F;  // of models whose text is worth guessing

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
  int64_t num_steps = 0;
  int64_t num_preemptions = 0;
  SpeculationStats speculation;
};

// Rows are looked at by three threads.
Outcome run_all(
    const std::vector<Request>& requests, const SchedulerConfig& config, TokenId poison = -1
) {
  ThreadPool threads(3);
  EngineCore core(
      config,
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .habit = config.speculation ? kHabit : 0.0F,
          .block_size = config.block_size,
          .num_blocks = config.num_blocks,
          .num_tokens_max = config.max_num_batched_tokens,
          .num_logit_rows_max = config.max_logit_rows,
          .poison = poison,
          .on_forward = {},
          .idle_threads = &threads,
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
  outcome.num_steps = core.num_steps();
  outcome.num_preemptions = core.scheduler_stats().num_preemptions;
  outcome.speculation = core.scheduler_stats().speculation;
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

Outcome expect_as_alone(const std::vector<Request>& requests, const SchedulerConfig& config) {
  Outcome outcome = run_all(requests, config);
  const FakeVoice voice{.vocab_size = kVocabSize, .habit = config.speculation ? kHabit : 0.0F};
  for (const Request& request : requests) {
    for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
      SCOPED_TRACE(::testing::Message() << "request " << request.id.value << "." << choice);
      const SequenceRecord& record = outcome.records.at({request.id.value, choice});
      const SequenceRecord alone = run_alone(request, choice, config, voice);
      EXPECT_EQ(record.tokens.size(), 12U);
      EXPECT_EQ(record.tokens, alone.tokens);
      EXPECT_EQ(record.logprobs, alone.logprobs);
      EXPECT_EQ(record.prompt_logprobs, alone.prompt_logprobs);
    }
  }
  return outcome;
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

SchedulerConfig guessing() {
  SchedulerConfig config = roomy();
  config.speculation =
      NgramSpeculation{.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 1};
  return config;
}

TEST(EngineCore, SpeculationChangesNothingButTheNumberOfSteps) {
  std::vector<Request> requests = mixed_requests();
  requests[0].sampling.temperature = 0.0F;
  requests[3].sampling.temperature = 0.0F;
  requests[3].sampling.repetition_penalty = 1.1F;
  requests[4].sampling.frequency_penalty = 0.2F;
  requests[4].sampling.presence_penalty = 0.1F;
  requests[5].sampling.min_tokens = 12;
  requests[5].sampling.stop_token_ids = {3, 4, 5, 6};
  requests[5].sampling.bad_words = {{7, 8}, {9}};
  for (const int32_t budget : {1, 5, 64}) {
    for (const int32_t block_size : {1, 3, 16}) {
      SCOPED_TRACE(::testing::Message() << budget << " tokens a step, blocks of " << block_size);
      SchedulerConfig config = guessing();
      config.max_num_batched_tokens = std::max(budget, 2);
      config.max_num_seqs = std::min(budget, 8);
      config.block_size = block_size;
      const Outcome outcome = expect_as_alone(requests, config);
      EXPECT_GT(outcome.speculation.num_accepted_tokens, budget == 64 ? 10 : 0);
      EXPECT_GT(outcome.speculation.num_draft_tokens, outcome.speculation.num_accepted_tokens);
    }
  }
}

TEST(EngineCore, SpeculationSavesSteps) {
  Request request{.id = RequestId{0}, .prompt = {1, 2, 3}, .seed = 5};
  request.sampling.max_tokens = 60;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 0.0F;
  SchedulerConfig config = guessing();
  config.max_model_len = 64;
  const Outcome outcome = run_all({request}, config);
  EXPECT_EQ(outcome.records.at({0, 0}).tokens.size(), 60U);
  EXPECT_EQ(outcome.num_steps + outcome.speculation.num_accepted_tokens, 60);
  EXPECT_LT(outcome.num_steps, 45);
}

TEST(EngineCore, SpeculationAndPreemptionChangeNothing) {
  SchedulerConfig config = guessing();
  config.block_size = 1;
  config.num_blocks = 46;
  const Outcome outcome = expect_as_alone(mixed_requests(), config);
  EXPECT_GT(outcome.num_preemptions, 0);
  EXPECT_GT(outcome.speculation.num_accepted_tokens, 5);
}

// Greedy, so that the text is the habit's. The last token of several in a step ends it.
TEST(EngineCore, OnlyTheLastTokenOfAStepIsTheStopToken) {
  Request request{.id = RequestId{0}, .prompt = {1, 2, 3}};
  request.sampling.max_tokens = 40;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 0.0F;
  const std::vector<TokenId> whole = run_all({request}, guessing()).records.at({0, 0}).tokens;
  int num_ends_in_company = 0;
  for (const TokenId stop : whole) {
    request.sampling.stop_token_ids = {stop};
    EngineCore core(
        guessing(),
        std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
            .vocab_size = kVocabSize, .habit = kHabit, .num_blocks = 128, .on_forward = {}})
    );
    ASSERT_TRUE(core.add(request).ok());
    std::vector<TokenId> said;
    while (!core.is_idle()) {
      const std::vector<EngineEvent> events = core.step();
      for (const EngineEvent& event : events) {
        const auto* token = std::get_if<TokenEvent>(&event);
        if (token == nullptr) continue;
        said.push_back(token->token.id);
        EXPECT_EQ(token->is_stop_token, token->token.id == stop);
        EXPECT_EQ(token->when, std::get<TokenEvent>(events[0]).when) << "one step, one time";
      }
      if (core.is_idle() && events.size() > 2) ++num_ends_in_company;
    }
    EXPECT_EQ(said, std::vector(whole.begin(), std::ranges::find(whole, stop) + 1));
  }
  EXPECT_GT(num_ends_in_company, 0);
}

// What is guessed wrong must not fail a request, and what is chosen fails it where it would have.
TEST(EngineCore, ADraftWithoutNumbersIsOnlyADraft) {
  constexpr TokenId kPoison = 23;
  Request request{.id = RequestId{0}, .prompt = {5, kPoison - 1, 5}, .seed = 3};
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    request.seed = seed;
    request.sampling.max_tokens = 40;
    request.sampling.ignore_eos = true;
    SchedulerConfig config = guessing();
    const SequenceRecord with = run_all({request}, config, kPoison).records.at({0, 0});
    const SequenceRecord alone =
        run_alone(request, 0, config, {.vocab_size = kVocabSize, .habit = kHabit});
    const auto poisoned = std::ranges::find(alone.tokens, kPoison);
    const bool is_poisoned = poisoned != alone.tokens.end() && poisoned + 1 != alone.tokens.end();
    EXPECT_EQ(with.finished[0].reason, is_poisoned ? FinishReason::kError : FinishReason::kLength);
    EXPECT_EQ(
        with.tokens,
        std::vector(alone.tokens.begin(), is_poisoned ? poisoned + 1 : alone.tokens.end())
    );
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
  scheduler.commit(plan, std::vector<StepOutcome>{SampledTokens{{.id = 16, .logprobs = {}}}}, {});
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
