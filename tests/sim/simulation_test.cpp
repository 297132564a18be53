// The whole control plane against a seeded model and clock: thousands of mixes of limits, requests
// that share prefixes or repeat one another, tenants, priorities, cancellations and deadlines, most
// of them with too few blocks. Whatever happens around it, a sequence says what it says alone; and
// after every step the books are right.
//
// MILLRACE_NUM_SEEDS: how many mixes (default 2,000). MILLRACE_FIRST_SEED: the first, to run the
// one that failed again. Every seed is printed when its mix breaks, whether an expectation or a
// CHECK.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <numeric>
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
  int64_t num_launched_behind = 0;
  int64_t num_preemptions = 0;
  int64_t num_prompt_logprobs = 0;
  int64_t num_prefix_hits = 0;
  int64_t num_block_copies = 0;
  int64_t num_resumed = 0;
  int64_t num_recomputed = 0;
  int64_t num_useful = 0;
  int64_t num_guessed = 0;
  int64_t num_guessed_right = 0;
  std::map<FinishReason, int64_t> num_finished;
};

enum class Load {
  kAny,
  kOverload,  // hundreds of requests at once for a pool that holds two or three
  kAhead,     // the model draws tokens, and most steps are planned while another one is in flight
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed, Load load = Load::kAny)
      : load_(load), rng_(seed), config_(draw_config()), habit_(draw_habit()) {
    core_ = std::make_unique<EngineCore>(
        config_,
        std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
            .vocab_size = kVocabSize,
            .habit = habit_,
            .max_model_len = config_.max_model_len,
            .block_size = config_.block_size,
            .num_blocks = config_.num_blocks,
            .num_hidden_slots = config_.num_hidden_slots,
            .num_tokens_max = config_.max_num_batched_tokens,
            .num_logit_rows_max = config_.max_logit_rows,
            .poison = rng_.below(4) == 0 ? std::optional(kPoison) : std::nullopt,
            .on_forward = {},
            .draws_tokens = load_ == Load::kAhead,
            .num_launched_behind = &num_launched_behind_,
        }),
        [this] { return now_ += std::chrono::milliseconds(1); }
    );
  }

  void run(Totals& totals) {
    const uint64_t num_requests = load_ == Load::kOverload ? 300 : 1 + rng_.below(20);
    for (int64_t step = 0; requests_.size() < num_requests || !core_->is_idle(); ++step) {
      ASSERT_LT(step, 20000) << "the engine gets nowhere";
      while (requests_.size() < num_requests && (load_ == Load::kOverload || one_in(3))) submit();
      if (!requests_.empty() && rng_.below(40) == 0) {
        core_->cancel(RequestId{rng_.below(requests_.size() + 1)});
      }
      for (const EngineEvent& event : core_->step()) take(event);
      core_->check_invariants();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    check(totals);
    add_stats(core_->scheduler_stats(), totals);
    totals.num_requests += static_cast<int64_t>(num_requests);
    totals.num_steps += core_->num_steps();
    totals.num_launched_behind += num_launched_behind_;
  }

 private:
  int32_t draw(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }

  bool one_in(int32_t n) { return draw(1, n) == 1; }

  SchedulerConfig draw_config() {
    const SchedulingPolicy policies[] = {
        SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kFair};
    SchedulerConfig config{
        .policy = policies[draw(0, 2)],
        .long_prefill_token_threshold = draw(1, 32),
        .max_num_seqs = draw(1, 8),
        .max_model_len = draw(2, 64),
        .block_size = draw(1, 8),
        .enable_prefix_caching = !one_in(4),
        .prefix_hash_key = {.low = rng_.next(), .high = rng_.next()},
        .eos_token_ids = {0, 5},
    };
    config.max_num_batched_tokens = config.max_num_seqs + draw(0, 3) * draw(0, 20);
    config.max_logit_rows = config.max_num_seqs + draw(0, 2) * draw(0, 10);
    // From a pool that holds one short sequence to one that holds everything.
    config.num_blocks = draw(1, 3) * div_ceil(draw(1, config.max_model_len), config.block_size);
    if (one_in(4)) {
      config.num_blocks = config.max_num_seqs * div_ceil(config.max_model_len, config.block_size);
    }
    if (load_ == Load::kOverload) {
      config.max_num_seqs = 8;
      config.max_num_batched_tokens = 64;
      config.max_logit_rows = 16;
      config.max_model_len = 64;
      config.num_blocks = draw(2, 4) * div_ceil(48, config.block_size);
    }
    config.num_hidden_slots = draw(0, config.num_blocks);
    // Guesses follow what is known: no step is planned ahead with them.
    if (one_in(load_ == Load::kAhead ? 10 : 2)) {
      const int32_t lookup_min = draw(1, 3);
      config.speculation = NgramSpeculation{
          .num_speculative_tokens = draw(1, one_in(4) ? 32 : 6),
          .prompt_lookup_max = draw(lookup_min, 4),
          .prompt_lookup_min = lookup_min};
    }
    EXPECT_TRUE(validate(config).ok());
    return config;
  }

  // How much the model repeats itself: guesses are right now and then, never, or nearly always.
  float draw_habit() { return one_in(3) ? 0.0F : static_cast<float>(draw(2, 8)); }

  Request draw_request() {
    Request request{.id = RequestId{requests_.size()}, .seed = rng_.next(), .arrival = now_};
    request.prompt = draw_prompt();
    request.prefix_root = {.low = one_in(5) ? 1U : 0U, .high = 0};
    // Without a cache, what one request computes is nobody else's: as Intake has it.
    if (!config_.enable_prefix_caching) request.prefix_root.high = request.id.value + 1;
    request.tenant = TenantId{draw(0, 2)};
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
    if (is_plain_) {
      sampling.repetition_penalty = 1.0F;
      sampling.min_tokens = 0;
      sampling.prompt_logprobs.reset();
      sampling.top_k = draw(0, 8);
      sampling.top_p = one_in(2) ? 1.0F : 0.7F;
    }
    return request;
  }

  // New, or one that came before: whole, its beginning, or as the next turn of a conversation.
  std::vector<TokenId> draw_prompt() {
    const auto room = static_cast<size_t>(std::min(num_sequence_tokens_max(config_) - 1, 40));
    std::vector<TokenId> prompt;
    size_t num_new = static_cast<size_t>(draw(1, draw(1, static_cast<int32_t>(room))));
    if (!requests_.empty() && !one_in(3)) {
      const Request& earlier = requests_[rng_.below(requests_.size())];
      prompt = earlier.prompt;
      if (one_in(3)) prompt.resize(rng_.below(prompt.size() + 1));
      if (one_in(3)) {
        const std::vector<TokenId>& answer = records_[{earlier.id.value, 0}].tokens;
        prompt.insert(prompt.end(), answer.begin(), answer.end());
      }
      num_new = prompt.empty() || one_in(2) ? rng_.below(6) + (prompt.empty() ? 1 : 0) : 0;
    }
    for (size_t i = 0; i < num_new; ++i) prompt.push_back(draw(0, one_in(60) ? 23 : 22));
    prompt.resize(std::min(prompt.size(), room));
    return prompt;
  }

  // Tokens of a sequence come one a step, or several where they were guessed, unless it was
  // preempted or there were no blocks for it.
  void take(const EngineEvent& event) {
    const std::pair<uint64_t, int32_t> id{request_of(event).value, choice_of(event)};
    records_[id].append(event);
    if (!std::holds_alternative<TokenEvent>(event)) return;
    int64_t& last = step_of_last_token_[id];
    if (last > 0 && has_room_for_all()) {
      const bool was_guessed = config_.speculation && core_->num_steps() == last;
      EXPECT_TRUE(was_guessed || core_->num_steps() == last + 1)
          << "a sequence that runs was passed over";
    }
    last = core_->num_steps();
    // Others may start while a choice is held, so what all of them take bounds it.
    const bool was_held = id.second > 0;
    if (!was_held && config_.policy != SchedulingPolicy::kFcfs) return;
    EXPECT_LE(core_->num_steps(), was_held ? num_steps_of_all_ : step_due_[id.first])
        << "it waited longer than all before it could take";
  }

  bool has_room_for_all() const {
    return config_.num_blocks >=
           config_.max_num_seqs * div_ceil(config_.max_model_len, config_.block_size);
  }

  // The first in order gets at least a token further in every step, so everybody before a request,
  // and then the request itself, takes as many steps as it may have tokens at most.
  int64_t steps_at_most(const Request& request) const {
    const int64_t num_tokens =
        static_cast<int64_t>(request.prompt.size()) + request.sampling.max_tokens;
    // Ahead, an end and what follows a preemption are seen one step later.
    const int64_t num_steps_per_token = load_ == Load::kAhead ? 2 : 1;
    return num_steps_per_token * request.sampling.n *
           (std::min<int64_t>(num_tokens, num_sequence_tokens_max(config_)) + 1);
  }

  void add_stats(const SchedulerStats& stats, Totals& totals) const {
    totals.num_preemptions += stats.num_preemptions;
    totals.num_prefix_hits += stats.num_prefix_hits;
    totals.num_block_copies += stats.num_block_copies;
    totals.num_resumed += stats.num_resumed;
    totals.num_recomputed += stats.num_tokens_recomputed;
    totals.num_guessed += stats.speculation.num_draft_tokens;
    totals.num_guessed_right += stats.speculation.num_accepted_tokens;
    const int64_t num_slots = int64_t{config_.num_blocks} * config_.block_size;
    const int64_t num_useful = stats.num_tokens_computed - stats.num_tokens_recomputed;
    // What may be lost beside the share: the credit that was saved up, and once each those who run.
    const int64_t num_lost_once = config_.max_num_seqs * int64_t{num_sequence_tokens_max(config_)};
    EXPECT_LE(
        stats.num_tokens_recomputed,
        num_useful / RecomputeCredit::kUsefulPerRecomputed + num_slots + num_lost_once
    ) << "it thrashes";
    totals.num_useful += num_useful;
  }

  void submit() {
    Request request = draw_request();
    requests_.push_back(request);
    int64_t num_steps = core_->num_steps();
    for (const Request& before : requests_) {
      if (!is_over(before)) num_steps += steps_at_most(before);
    }
    step_due_.push_back(num_steps);
    num_steps_of_all_ += steps_at_most(request);
    ASSERT_TRUE(core_->add(std::move(request)).ok());
  }

  bool is_over(const Request& request) {
    for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
      if (records_[{request.id.value, choice}].finished.empty()) return false;
    }
    return true;
  }

  void check(Totals& totals) {
    const SchedulerStats stats = core_->scheduler_stats();
    EXPECT_EQ(stats.num_blocks_free + stats.num_blocks_cached, config_.num_blocks);
    EXPECT_TRUE(config_.enable_prefix_caching || stats.num_blocks_cached == 0);
    EXPECT_EQ(stats.num_waiting_tokens, 0);
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
    std::optional<TimePoint> previous;
    for (const Request& request : requests_) {
      for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
        const SequenceRecord& record = records_[{request.id.value, choice}];
        check_record(request, choice, record);
        if (::testing::Test::HasFailure()) return;
        ++totals.num_finished[record.finished[0].reason];
        totals.num_prompt_logprobs += static_cast<int64_t>(record.prompt_logprobs.size());

        if (choice > 0) continue;  // held while the first computes the prompt
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
    const SequenceRecord alone =
        run_alone(request, choice, config_, {.vocab_size = kVocabSize, .habit = habit_});
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

  Load load_;
  Rng rng_;
  TimePoint now_{};
  SchedulerConfig config_;
  float habit_;
  // Ahead: no request has anything that the host must do.
  bool is_plain_ = load_ == Load::kAhead && one_in(2);
  int64_t num_launched_behind_ = 0;
  std::unique_ptr<EngineCore> core_;
  std::vector<Request> requests_;  // [i] has the id i
  int64_t num_steps_of_all_ = 0;
  std::vector<int64_t> step_due_;  // [request]: when each of its tokens has come at the latest
  std::map<std::pair<uint64_t, int32_t>, int64_t> step_of_last_token_;
  std::map<std::pair<uint64_t, int32_t>, SequenceRecord> records_;
};

uint64_t read_number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Runs `simulate(seed)` for many seeds, and names the seed that breaks.
template <class Simulate>
void for_each_seed(uint64_t num_seeds, const Simulate& simulate) {
  const auto previous = std::signal(SIGABRT, print_seed_and_abort);
  const uint64_t first = read_number("MILLRACE_FIRST_SEED", 0);
  for (uint64_t seed = first; seed < first + num_seeds; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::snprintf(
        g_seed_text.data(),
        g_seed_text.size(),
        "simulation seed %llu\n",
        static_cast<unsigned long long>(seed)
    );
    simulate(seed);
    if (::testing::Test::HasFailure()) break;
  }
  std::signal(SIGABRT, previous);
}

TEST(Simulation, EverySequenceEndsOnceAndSaysWhatItSaysAlone) {
  Totals totals;
  const uint64_t num_seeds = read_number("MILLRACE_NUM_SEEDS", 2000);
  const std::clock_t begin = std::clock();
  for_each_seed(num_seeds, [&totals](uint64_t seed) { Simulation(seed).run(totals); });
  const double cpu_hours = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / 3600;
  std::printf(
      "%lld requests in %lld steps, %lld preemptions: %.1f million requests per CPU-hour\n",
      static_cast<long long>(totals.num_requests),
      static_cast<long long>(totals.num_steps),
      static_cast<long long>(totals.num_preemptions),
      static_cast<double>(totals.num_requests) / cpu_hours / 1e6
  );
  if (num_seeds < 2000) return;

  // The mixes are worth running only if all of this happens in them, and often.
  EXPECT_GT(totals.num_preemptions, 1000);
  EXPECT_GT(totals.num_prompt_logprobs, 10000);
  EXPECT_GT(totals.num_prefix_hits, 10000);
  EXPECT_GT(totals.num_block_copies, 1000);
  EXPECT_GT(totals.num_resumed, 1000);
  EXPECT_GT(totals.num_recomputed, 1000);
  EXPECT_GT(totals.num_guessed_right, 2000);
  EXPECT_GT(totals.num_guessed - totals.num_guessed_right, 2000);
  for (const FinishReason reason :
       {FinishReason::kStop,
        FinishReason::kLength,
        FinishReason::kCancelled,
        FinishReason::kDeadline,
        FinishReason::kError}) {
    EXPECT_GT(totals.num_finished[reason], 100) << name_of(reason);
  }
}

TEST(Simulation, PlanningAheadChangesNothing) {
  Totals totals;
  const uint64_t num_seeds = read_number("MILLRACE_NUM_SEEDS", 2000);
  for_each_seed(num_seeds, [&totals](uint64_t seed) {
    Simulation(seed, Load::kAhead).run(totals);
  });
  std::printf(
      "%lld of %lld steps were planned ahead, %lld preemptions\n",
      static_cast<long long>(totals.num_launched_behind),
      static_cast<long long>(totals.num_steps),
      static_cast<long long>(totals.num_preemptions)
  );
  if (num_seeds < 2000) return;
  EXPECT_GT(totals.num_launched_behind, totals.num_steps / 3);
  EXPECT_GT(totals.num_preemptions, 500);
  EXPECT_GT(totals.num_prefix_hits, 5000);
  EXPECT_GT(totals.num_resumed, 500);
  for (const FinishReason reason :
       {FinishReason::kStop,
        FinishReason::kLength,
        FinishReason::kCancelled,
        FinishReason::kDeadline,
        FinishReason::kError}) {
    EXPECT_GT(totals.num_finished[reason], 50) << name_of(reason);
  }
}

TEST(Simulation, AnOverloadedEngineSpendsLittleOnWhatItHadComputedBefore) {
  Totals totals;
  for_each_seed(read_number("MILLRACE_NUM_SEEDS", 2000) / 50, [&totals](uint64_t seed) {
    Simulation(seed, Load::kOverload).run(totals);
  });
  std::printf(
      "%lld preemptions; %lld tokens computed again, %.1f %% of %lld\n",
      static_cast<long long>(totals.num_preemptions),
      static_cast<long long>(totals.num_recomputed),
      100.0 * static_cast<double>(totals.num_recomputed) / static_cast<double>(totals.num_useful),
      static_cast<long long>(totals.num_useful)
  );
  EXPECT_GT(totals.num_preemptions, 100);
  EXPECT_LE(totals.num_recomputed * RecomputeCredit::kUsefulPerRecomputed, totals.num_useful);
}

}  // namespace
}  // namespace millrace
