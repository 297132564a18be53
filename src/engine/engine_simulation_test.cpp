// The whole control plane against a seeded model and clock: hundreds of mixes of limits, requests,
// cancellations and deadlines. Whatever happens around it, a sequence says what it says alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/math.h"
#include "base/rng.h"
#include "engine/engine_core.h"
#include "engine/fake_model_runner.h"
#include "engine/reference_run.h"

namespace millrace {
namespace {

constexpr size_t kVocabSize = 24;
constexpr TokenId kPoison = 23;

// A broken invariant aborts; the seed must come out all the same.
std::array<char, 64> g_seed_text{};
void print_seed_and_abort(int) {
  const std::string_view text(g_seed_text.data());
  (void)!write(STDERR_FILENO, text.data(), text.size());
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

struct Totals {
  int64_t num_requests = 0;
  int64_t num_steps = 0;
  int64_t num_preemptions = 0;
  int64_t num_prompt_logprobs = 0;
  std::map<FinishReason, int64_t> num_finished;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : rng_(seed), config_(draw_config()) {
    core_ = std::make_unique<EngineCore>(
        config_,
        std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
            .vocab_size = kVocabSize,
            .max_model_len = config_.max_model_len,
            .block_size = config_.block_size,
            .num_blocks = config_.num_blocks,
            .num_tokens_max = config_.max_num_batched_tokens,
            .num_logit_rows_max = config_.max_logit_rows,
            .poison = rng_.below(4) == 0 ? std::optional(kPoison) : std::nullopt,
            .on_forward = {},
        }),
        [this] { return now_ += std::chrono::milliseconds(1); }
    );
  }

  void run(Totals& totals) {
    const uint64_t num_requests = 1 + rng_.below(20);
    for (int64_t step = 0; requests_.size() < num_requests || !core_->is_idle(); ++step) {
      ASSERT_LT(step, 20000) << "the engine gets nowhere";
      while (requests_.size() < num_requests && rng_.below(3) == 0) submit();
      if (!requests_.empty() && rng_.below(40) == 0) {
        core_->cancel(RequestId{rng_.below(requests_.size() + 1)});
      }
      for (const EngineEvent& event : core_->step()) {
        records_[{request_of(event).value, choice_of(event)}].append(event);
      }
      core_->check_invariants();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    check(totals);
    totals.num_requests += static_cast<int64_t>(num_requests);
    totals.num_steps += core_->num_steps();
    totals.num_preemptions += core_->scheduler_stats().num_preemptions;
  }

 private:
  int32_t draw(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }

  SchedulerConfig draw_config() {
    SchedulerConfig config{
        .policy = draw(0, 1) == 0 ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority,
        .long_prefill_token_threshold = draw(1, 32),
        .max_num_seqs = draw(1, 8),
        .max_model_len = draw(2, 64),
        .block_size = draw(1, 8),
        .eos_token_ids = {0, 5},
    };
    config.max_num_batched_tokens = config.max_num_seqs + draw(0, 3) * draw(0, 20);
    config.max_logit_rows = config.max_num_seqs + draw(0, 2) * draw(0, 10);
    // From a pool that holds one short sequence to one that holds everything.
    config.num_blocks = draw(1, 3) * div_ceil(draw(1, config.max_model_len), config.block_size);
    EXPECT_TRUE(validate(config).ok());
    return config;
  }

  Request draw_request() {
    Request request{.id = RequestId{requests_.size()}, .seed = rng_.next(), .arrival = now_};
    const int32_t room = num_sequence_tokens_max(config_) - 1;
    request.prompt.resize(static_cast<size_t>(draw(1, draw(1, std::min(room, 40)))));
    for (TokenId& token : request.prompt) token = draw(0, draw(0, 60) == 0 ? 23 : 22);
    request.priority = draw(-2, 2);
    if (draw(0, 9) == 0) request.deadline = now_ + std::chrono::milliseconds(draw(0, 60));

    SamplingParams& sampling = request.sampling;
    sampling.max_tokens = draw(1, draw(0, 5) == 0 ? 100 : 24);
    sampling.min_tokens = draw(0, 3) == 0 ? draw(0, sampling.max_tokens) : 0;
    sampling.ignore_eos = draw(0, 2) > 0;
    if (draw(0, 3) == 0) sampling.stop_token_ids = {draw(0, 22), 3};
    if (draw(0, 3) == 0) sampling.temperature = 0.0F;
    if (draw(0, 3) == 0) sampling.repetition_penalty = 1.3F;
    if (draw(0, 3) == 0) sampling.n = draw(2, 4);
    if (draw(0, 2) == 0) sampling.logprobs = draw(0, 3);
    if (draw(0, 2) == 0) sampling.prompt_logprobs = draw(0, 3);
    return request;
  }

  void submit() {
    Request request = draw_request();
    requests_.push_back(request);
    ASSERT_TRUE(core_->add(std::move(request)).ok());
  }

  void check(Totals& totals) {
    const SchedulerStats stats = core_->scheduler_stats();
    EXPECT_EQ(stats.num_blocks_free, config_.num_blocks);
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
    std::optional<TimePoint> previous;
    for (const Request& request : requests_) {
      for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
        const SequenceRecord& record = records_[{request.id.value, choice}];
        check_record(request, choice, record);
        if (::testing::Test::HasFailure()) return;
        ++totals.num_finished[record.finished[0].reason];
        totals.num_prompt_logprobs += static_cast<int64_t>(record.prompt_logprobs.size());

        const auto& scheduled = record.finished[0].timings.first_scheduled;
        if (config_.policy != SchedulingPolicy::kFcfs || !scheduled) continue;
        EXPECT_LE(previous.value_or(*scheduled), *scheduled) << "overtaken";
        previous = scheduled;
      }
    }
  }

  void check_record(const Request& request, int32_t choice, const SequenceRecord& record) {
    SCOPED_TRACE(::testing::Message() << "request " << request.id.value << " choice " << choice);
    ASSERT_EQ(record.finished.size(), 1U) << "each sequence ends once";
    const SequenceRecord alone = run_alone(request, choice, config_, kVocabSize);
    const FinishReason reason = record.finished[0].reason;
    const bool is_complete = reason == FinishReason::kStop || reason == FinishReason::kLength;
    if (is_complete) {
      EXPECT_EQ(record.tokens, alone.tokens);
      EXPECT_EQ(record.logprobs, alone.logprobs);
      EXPECT_EQ(record.prompt_logprobs, alone.prompt_logprobs);
      return;
    }
    // Cut short: what there is of it is the beginning of what it would have been.
    ASSERT_LE(record.tokens.size(), alone.tokens.size());
    EXPECT_TRUE(std::equal(record.tokens.begin(), record.tokens.end(), alone.tokens.begin()));
    ASSERT_LE(record.prompt_logprobs.size(), alone.prompt_logprobs.size());
    EXPECT_EQ(reason == FinishReason::kError, record.finished[0].error.has_value());
  }

  Rng rng_;
  TimePoint now_{};
  SchedulerConfig config_;
  std::unique_ptr<EngineCore> core_;
  std::vector<Request> requests_;  // [i] has the id i
  std::map<std::pair<uint64_t, int32_t>, SequenceRecord> records_;
};

TEST(EngineSimulation, EverySequenceEndsOnceAndSaysWhatItSaysAlone) {
  const auto previous = std::signal(SIGABRT, print_seed_and_abort);
  Totals totals;
  for (uint64_t seed = 0; seed < 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::snprintf(
        g_seed_text.data(),
        g_seed_text.size(),
        "simulation seed %llu\n",
        static_cast<unsigned long long>(seed)
    );
    Simulation(seed).run(totals);
  }
  std::signal(SIGABRT, previous);

  // The mixes are worth running only if all of this happens in them, and often.
  EXPECT_GT(totals.num_preemptions, 1000);
  EXPECT_GT(totals.num_prompt_logprobs, 10000);
  for (const FinishReason reason :
       {FinishReason::kStop,
        FinishReason::kLength,
        FinishReason::kCancelled,
        FinishReason::kDeadline,
        FinishReason::kError}) {
    EXPECT_GT(totals.num_finished[reason], 100) << name_of(reason);
  }
  RecordProperty("requests", std::to_string(totals.num_requests));
  RecordProperty("steps", std::to_string(totals.num_steps));
  RecordProperty("preemptions", std::to_string(totals.num_preemptions));
}

}  // namespace
}  // namespace millrace
