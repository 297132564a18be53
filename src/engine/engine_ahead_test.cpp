// Steps that are planned and launched while the one before runs: every request says what it says
// one step at a time.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/rng.h"
#include "engine/engine_core.h"
#include "engine/event_queue.h"
#include "engine/fake_model_runner.h"
#include "engine/reference_run.h"
#include "engine/step_engine.h"
#include "engine/test_stream.h"

namespace millrace {
namespace {

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
      .num_hidden_slots = 16,
      .eos_token_ids = {0},
  };
}

struct Outcome {
  std::map<std::pair<uint64_t, int32_t>, SequenceRecord> records;
  int64_t num_steps = 0;
  int64_t num_launched_behind = 0;
  SchedulerStats stats;
};

struct Model {
  bool draws_tokens = true;
  std::optional<TokenId> poison = {};
  StepRecorder::Write record = {};
};

Outcome run_all(
    const std::vector<Request>& requests, const SchedulerConfig& config, const Model& model = {}
) {
  Outcome outcome;
  EngineCore core(
      config,
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .block_size = config.block_size,
          .num_blocks = config.num_blocks,
          .num_hidden_slots = config.num_hidden_slots,
          .num_tokens_max = config.max_num_batched_tokens,
          .num_logit_rows_max = config.max_logit_rows,
          .poison = model.poison,
          .on_forward = {},
          .draws_tokens = model.draws_tokens,
          .num_launched_behind = &outcome.num_launched_behind,
      }),
      Clock::now,
      model.record
  );
  for (const Request& request : requests) EXPECT_TRUE(core.add(request).ok());
  for (int i = 0; i < 10000 && !core.is_idle(); ++i) {
    for (const EngineEvent& event : core.step()) {
      outcome.records[{request_of(event).value, choice_of(event)}].append(event);
    }
    core.check_invariants();
  }
  EXPECT_TRUE(core.is_idle());
  EXPECT_TRUE(core.step().empty());
  outcome.num_steps = core.num_steps();
  outcome.stats = core.scheduler_stats();
  return outcome;
}

Request plain_request(uint64_t id, size_t num_prompt_tokens, int32_t max_tokens) {
  Request request{.id = RequestId{id}, .seed = 100 + id};
  for (size_t i = 0; i < num_prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(1 + (i * 7 + id) % 20));
  }
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

// What a client counts.
auto usage_of(const SequenceRecord& record) {
  const FinishedEvent& end = record.finished.at(0);
  return std::tuple(
      end.reason,
      end.stop_token,
      end.error ? end.error->message : "",
      end.timings.num_prompt_tokens,
      end.timings.num_output_tokens
  );
}

Outcome expect_same(
    const std::vector<Request>& requests,
    const SchedulerConfig& config,
    std::optional<TokenId> poison = {}
) {
  const Outcome one = run_all(requests, config, {.draws_tokens = false, .poison = poison});
  Outcome ahead = run_all(requests, config, {.draws_tokens = true, .poison = poison});
  EXPECT_EQ(one.num_launched_behind, 0);
  EXPECT_EQ(one.records.size(), ahead.records.size());
  for (const auto& [key, expected] : one.records) {
    SCOPED_TRACE(::testing::Message() << "request " << key.first << "." << key.second);
    const SequenceRecord& record = ahead.records.at(key);
    EXPECT_EQ(record.tokens, expected.tokens);
    EXPECT_EQ(record.logprobs, expected.logprobs);
    EXPECT_EQ(record.prompt_logprobs, expected.prompt_logprobs);
    EXPECT_EQ(usage_of(record), usage_of(expected));
  }
  EXPECT_EQ(one.stats.num_output_tokens, ahead.stats.num_output_tokens);
  EXPECT_EQ(one.stats.num_prompt_tokens, ahead.stats.num_prompt_tokens);
  EXPECT_EQ(ahead.stats.num_blocks_free + ahead.stats.num_blocks_cached, config.num_blocks);
  return ahead;
}

TEST(EngineAhead, SaysWhatTheModelSaysAloneAndRunsOneStepBehindAnother) {
  const Request request = plain_request(0, 9, 20);
  const Outcome outcome = expect_same({request}, roomy());
  const SequenceRecord alone = run_alone(request, 0, roomy(), {.vocab_size = kVocabSize});
  EXPECT_EQ(outcome.records.at({0, 0}).tokens, alone.tokens);
  EXPECT_EQ(outcome.num_steps, 20) << "the last token is certain by count";
  EXPECT_EQ(outcome.num_launched_behind, 19);
}

TEST(EngineAhead, AStopTokenCostsOneVoidStepAndNoEvent) {
  Request request = plain_request(0, 9, 20);
  const SequenceRecord alone = run_alone(request, 0, roomy(), {.vocab_size = kVocabSize});
  request.sampling.stop_token_ids = {alone.tokens[5]};
  const Outcome outcome = expect_same({request}, roomy());
  const auto end = std::ranges::find(alone.tokens, alone.tokens[5]);
  EXPECT_EQ(outcome.num_steps, end - alone.tokens.begin() + 2);
}

// Whatever the host has to do itself is done one step after the other.
TEST(EngineAhead, IsNotAheadOfWhatTheHostMustChoose) {
  std::vector<Request> requests(6, plain_request(0, 9, 12));
  requests[0].sampling.repetition_penalty = 1.3F;
  requests[1].sampling.logit_bias = {{3, 1.0F}};
  requests[2].sampling.bad_words = {{5, 6}};
  requests[3].sampling.allowed_token_ids = {2, 3, 4};
  requests[4].sampling.presence_penalty = 0.5F;
  requests[5].sampling.min_tokens = 12;
  requests[5].sampling.ignore_eos = false;
  for (const Request& request : requests) {
    EXPECT_EQ(expect_same({request}, roomy()).num_launched_behind, 0);
  }
}

TEST(EngineAhead, IsAheadAgainWhenTheHostHasChosen) {
  Request request = plain_request(0, 9, 30);
  request.sampling.prompt_logprobs = 1;
  request.sampling.min_tokens = 10;
  request.sampling.stop_token_ids = {23};
  const Outcome outcome = expect_same({request}, roomy());
  const auto num_tokens = static_cast<int64_t>(outcome.records.at({0, 0}).tokens.size());
  EXPECT_GT(num_tokens, 12);
  EXPECT_GE(outcome.num_launched_behind, num_tokens - 12);
  EXPECT_LE(outcome.num_launched_behind, num_tokens - 9);
}

TEST(EngineAhead, SpeculationAndRecordingsTakeOneStepAfterTheOther) {
  SchedulerConfig config = roomy();
  config.speculation =
      NgramSpeculation{.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 1};
  Request request = plain_request(0, 30, 30);
  request.sampling.temperature = 0.0F;
  EXPECT_EQ(expect_same({request}, config).num_launched_behind, 0);

  std::string with_draws;
  std::string without;
  const auto into = [](std::string& lines) {
    return [&lines](std::string_view more) {
      for (const char c : more) lines.push_back(c);
      return true;
    };
  };
  EXPECT_EQ(run_all({request}, roomy(), {.record = into(with_draws)}).num_launched_behind, 0);
  run_all({request}, roomy(), {.draws_tokens = false, .record = into(without)});
  const auto num_lines = [](const std::string& lines) { return std::ranges::count(lines, '\n'); };
  EXPECT_EQ(num_lines(with_draws), num_lines(without));
}

TEST(EngineAhead, LogitsThatAreNoNumbersEndOnlyTheirSequence) {
  constexpr TokenId kPoison = 23;
  std::vector<Request> requests;
  for (uint64_t id = 0; id < 6; ++id) requests.push_back(plain_request(id, 5 + id, 40));
  requests[4].prompt.back() = kPoison;
  const Outcome outcome = expect_same(requests, roomy(), kPoison);
  EXPECT_EQ(
      outcome.records.at({4, 0}).finished[0].error->message,
      "the model's logits are not finite at positions 8 to 8"
  );
  EXPECT_GT(outcome.num_launched_behind, 10);
}

// Everything that requests may ask for, in pools from one that holds a single sequence to roomy.
std::vector<Request> draw_requests(Rng& rng) {
  std::vector<Request> requests;
  const uint64_t num_requests = 1 + rng.below(9);
  const bool is_plain = rng.below(2) == 0;
  for (uint64_t id = 0; id < num_requests; ++id) {
    Request request = plain_request(
        rng.below(3) == 0 && id > 0 ? 0 : id,  // the same prompt as another
        1 + rng.below(20),
        static_cast<int32_t>(1 + rng.below(24))
    );
    request.id = RequestId{id};
    request.seed = rng.next();
    request.priority = static_cast<int32_t>(rng.below(3));
    SamplingParams& sampling = request.sampling;
    sampling.ignore_eos = rng.below(2) == 0;
    if (rng.below(3) == 0) sampling.temperature = 0.0F;
    if (rng.below(3) == 0) sampling.top_k = static_cast<int32_t>(1 + rng.below(6));
    if (rng.below(3) == 0) sampling.top_p = 0.8F;
    if (rng.below(3) == 0) sampling.min_p = 0.05F;
    if (rng.below(3) == 0) sampling.logprobs = static_cast<int32_t>(rng.below(4));
    if (rng.below(3) == 0) sampling.n = static_cast<int32_t>(2 + rng.below(2));
    if (rng.below(3) == 0) sampling.stop_token_ids = {static_cast<TokenId>(rng.below(22))};
    if (!is_plain && rng.below(4) == 0) sampling.repetition_penalty = 1.2F;
    if (!is_plain && rng.below(4) == 0) sampling.min_tokens = sampling.max_tokens / 2;
    if (!is_plain && rng.below(4) == 0) sampling.prompt_logprobs = 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(EngineAhead, RandomMixesAreTheSame) {
  int64_t num_launched_behind = 0;
  int64_t num_preemptions = 0;
  int64_t num_prefix_hits = 0;
  int64_t num_resumed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Rng rng(seed);
    SchedulerConfig config = roomy();
    if (rng.below(2) == 0) config.policy = SchedulingPolicy::kPriority;
    config.block_size = static_cast<int32_t>(1 + rng.below(6));
    config.num_blocks = 64 / config.block_size + static_cast<int32_t>(rng.below(64));
    config.max_num_batched_tokens = static_cast<int32_t>(8 + rng.below(56));
    config.enable_prefix_caching = rng.below(4) > 0;
    const std::optional<TokenId> poison = rng.below(4) == 0 ? std::optional(23) : std::nullopt;
    const Outcome outcome = expect_same(draw_requests(rng), config, poison);
    num_launched_behind += outcome.num_launched_behind;
    num_preemptions += outcome.stats.num_preemptions;
    num_prefix_hits += outcome.stats.num_prefix_hits;
    num_resumed += outcome.stats.num_resumed;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_launched_behind, 3000);
  EXPECT_GT(num_preemptions, 20);
  EXPECT_GT(num_prefix_hits, 500);
  EXPECT_GT(num_resumed, 50);
}

std::unique_ptr<StepEngine> start_engine() {
  auto engine = StepEngine::start(
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .num_blocks = 64,
          .on_forward = {},
          .draws_tokens = true,
      }),
      {}
  );
  EXPECT_TRUE(engine.ok());
  return std::move(*engine);
}

EngineRequest endless_request() {
  EngineRequest request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 60;
  request.sampling.ignore_eos = true;
  return request;
}

// The runner's destructor expects that every launch was waited for.
TEST(EngineAhead, AStepInFlightIsWaitedForBeforeTheEnd) {
  for (const ShutdownMode mode : {ShutdownMode::kAbort, ShutdownMode::kDrain}) {
    const auto engine = start_engine();
    std::vector<Stream> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(submit(*engine, endless_request()));
    engine->shutdown(mode);
    for (Stream& stream : streams) {
      const SequenceRecord record = stream.finish(1)[0];
      ASSERT_EQ(record.finished.size(), 1U);
      const bool is_complete = record.finished[0].reason == FinishReason::kLength;
      EXPECT_TRUE(is_complete || mode == ShutdownMode::kAbort);
    }
  }
}

TEST(EngineAhead, AnEngineThatIsGivenUpMidwayWaitsForTheStepInFlight) {
  EngineCore core(
      roomy(),
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .num_blocks = 128,
          .num_hidden_slots = 16,
          .on_forward = {},
          .draws_tokens = true,
      })
  );
  ASSERT_TRUE(core.add(plain_request(0, 9, 20)).ok());
  EXPECT_EQ(core.step().size(), 1U);
}

}  // namespace
}  // namespace millrace
