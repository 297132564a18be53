#include "mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/math.h"
#include "engine/engine_core.h"
#include "watched_runner.h"

namespace millrace {
namespace {

// A request as one mix submits it.
struct Submission {
  size_t entry = 0;
  std::optional<size_t> after;  // the submission that ends before this one is made
  int32_t salt = 0;
  std::optional<Duration> patience;  // from arrival to deadline
  int32_t num_unfinished = 0;
  bool is_submitted = false;
};

class Mix {
 public:
  Mix(TestModel& model, std::span<const CatalogEntry> catalog, uint64_t seed, MixTotals& totals)
      : catalog_(catalog), rng_(seed), totals_(totals) {
    draw_submissions();
    const std::vector<ModelSetup> setups = model.setups();
    const ModelSetup& setup = setups[rng_.below(setups.size())];
    draw_config(setup.block_size, model.eos_token_ids());
    auto runner = std::make_unique<WatchedRunner>(
        model.load(setup),
        WatchedRunner::Limits{
            .num_blocks = config_.num_blocks, .num_hidden_slots = config_.num_hidden_slots},
        totals_
    );
    core_ = std::make_unique<EngineCore>(config_, std::move(runner), [this] {
      return now_ += std::chrono::milliseconds(1);
    });
  }

  void run() {
    size_t next = 0;
    for (int64_t step = 0; next < submissions_.size() || !core_->is_idle(); ++step) {
      ASSERT_LT(step, 20000) << "the engine gets nowhere";
      while (next < submissions_.size() && may_submit(next) && (core_->is_idle() || draw(0, 2))) {
        submit(next++);
      }
      if (next > 0 && draw(0, 80) == 0) cancel(rng_.below(next));
      for (const EngineEvent& event : core_->step()) take(event);
      core_->check_invariants();
      if (testing::Test::HasFailure()) return;
    }
    for (size_t i = 0; i < submissions_.size(); ++i) check(i);
    const SpeculationStats speculation = core_->scheduler_stats().speculation;
    totals_.num_guessed_right += speculation.num_accepted_tokens;
    totals_.num_guessed_wrong += speculation.num_draft_tokens - speculation.num_accepted_tokens;
  }

 private:
  using Key = std::pair<size_t, int32_t>;  // submission, choice

  int32_t draw(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }

  // A few entries of the catalog, some of them several times, each chat after what it continues.
  void draw_submissions() {
    std::vector<size_t> few(static_cast<size_t>(draw(1, 6)));
    for (size_t& entry : few) entry = rng_.below(catalog_.size());
    const int32_t count = draw(1, 12);
    for (int32_t i = 0; i < count; ++i) {
      Submission submission{.entry = few[rng_.below(few.size())], .after = {}, .patience = {}};
      if (draw(0, 5) == 0) submission.salt = draw(1, 2);
      if (draw(0, 15) == 0) submission.patience = std::chrono::milliseconds(draw(0, 60));
      const std::optional<size_t> parent = catalog_[submission.entry].parent;
      if (parent && draw(0, 3) > 0) {
        submission.after = submissions_.size();
        submissions_.push_back({.entry = *parent, .after = {}, .salt = submission.salt});
      }
      submissions_.push_back(submission);
    }
  }

  void draw_config(int32_t block_size, std::vector<TokenId> eos_token_ids) {
    int32_t longest = 0;
    for (const Submission& submission : submissions_) {
      longest = std::max(longest, catalog_[submission.entry].num_tokens_max());
    }
    constexpr SchedulingPolicy kPolicies[] = {
        SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kFair};
    const int32_t blocks_each = div_ceil(longest, block_size);
    const int32_t pool = kPoolTokensMax / block_size;
    config_ = {
        .policy = kPolicies[draw(0, 2)],
        .long_prefill_token_threshold = draw(0, 2) == 0 ? kModelLenMax : draw(1, 48),
        .max_num_seqs = draw(0, 3) == 0 ? draw(1, 3) : draw(4, 16),
        .max_model_len = kModelLenMax,
        .block_size = block_size,
        // From a pool that holds one sequence, with little beside it, to one that holds everything.
        .num_blocks = draw(0, 4) == 0 ? pool : blocks_each + draw(0, 1) * draw(0, 8),
        .enable_prefix_caching = draw(0, 3) > 0,
        .prefix_hash_key = {.low = rng_.next(), .high = rng_.next()},
        .eos_token_ids = std::move(eos_token_ids),
    };
    config_.max_num_batched_tokens =
        draw(0, 2) == 0 ? kModelLenMax : config_.max_num_seqs + draw(0, 40);
    config_.max_logit_rows = config_.max_num_seqs + draw(0, 1) * draw(0, 100);
    config_.num_hidden_slots = draw(0, 3) == 0 ? draw(0, 3) : config_.num_blocks;
    if (draw(0, 2) > 0) {
      const int32_t lookup_min = draw(1, 2);
      config_.speculation = NgramSpeculation{
          .num_speculative_tokens = draw(1, 8),
          .prompt_lookup_max = draw(lookup_min, 4),
          .prompt_lookup_min = lookup_min};
    }
    const Result<void> valid = validate(config_);
    CHECK(valid.ok(), valid.error().message);
  }

  bool may_submit(size_t index) const {
    const std::optional<size_t> after = submissions_[index].after;
    return !after || submissions_[*after].num_unfinished == 0;
  }

  void submit(size_t index) {
    Submission& submission = submissions_[index];
    Request request = catalog_[submission.entry].request;
    request.id = RequestId{index};
    request.arrival = now_;
    if (submission.patience) request.deadline = now_ + *submission.patience;
    // As the engine's intake does it: who must not share has a root of its own.
    request.prefix_root = {
        .low = static_cast<uint64_t>(submission.salt),
        .high = config_.enable_prefix_caching ? 0 : index + 1};
    submission.num_unfinished = request.sampling.n;
    ASSERT_TRUE(core_->add(std::move(request)).ok());
  }

  void cancel(size_t index) {
    const int32_t n = catalog_[submissions_[index].entry].request.sampling.n;
    if (draw(0, 1) == 0) {
      core_->cancel(RequestId{index});
    } else {
      core_->cancel(RequestId{index}, draw(0, n - 1));
    }
  }

  void take(const EngineEvent& event) {
    const size_t index = request_of(event).value;
    records_[{index, choice_of(event)}].append(event);
    if (std::holds_alternative<FinishedEvent>(event)) --submissions_[index].num_unfinished;
  }

  void check(size_t index) {
    const CatalogEntry& entry = catalog_[submissions_[index].entry];
    for (int32_t choice = 0; choice < entry.request.sampling.n; ++choice) {
      SCOPED_TRACE(
          testing::Message() << "submission " << index << ", catalog entry "
                             << submissions_[index].entry << ", choice " << choice
      );
      const SequenceRecord& record = records_[{index, choice}];
      ASSERT_EQ(record.finished.size(), 1U) << "each sequence ends once";
      expect_as_alone(record, entry.alone[static_cast<size_t>(choice)]);
      count(entry, record);
    }
  }

  static void expect_as_alone(const SequenceRecord& record, const LoneRun& alone) {
    const FinishReason reason = record.finished[0].reason;
    if (reason == FinishReason::kStop || reason == FinishReason::kLength) {
      EXPECT_EQ(reason, alone.reason);
      EXPECT_EQ(record.tokens, alone.record.tokens);
      EXPECT_EQ(record.logprobs, alone.record.logprobs);
      EXPECT_EQ(record.prompt_logprobs, alone.record.prompt_logprobs);
      return;
    }
    // Cut short: what there is of it is the beginning of what it would have been.
    EXPECT_TRUE(reason == FinishReason::kCancelled || reason == FinishReason::kDeadline);
    const auto begins = [](const auto& part, const auto& whole) {
      return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
    };
    EXPECT_TRUE(begins(record.tokens, alone.record.tokens));
    EXPECT_TRUE(begins(record.logprobs, alone.record.logprobs));
    EXPECT_TRUE(begins(record.prompt_logprobs, alone.record.prompt_logprobs));
  }

  void count(const CatalogEntry& entry, const SequenceRecord& record) {
    const FinishedEvent& finished = record.finished[0];
    const SequenceTimings& timings = finished.timings;
    const bool is_complete =
        finished.reason == FinishReason::kStop || finished.reason == FinishReason::kLength;
    const int32_t num_prompt_tokens = timings.num_prompt_tokens;
    const int32_t num_cached = timings.num_cached_tokens;
    const auto add = [](int64_t& total, bool happened) { total += happened ? 1 : 0; };
    add(totals_.num_complete, is_complete);
    add(totals_.num_cut_short, !is_complete);
    add(totals_.num_preempted, timings.num_preemptions > 0);
    add(totals_.num_of_several, entry.request.sampling.n > 1);
    add(totals_.num_cached, num_cached > 0);
    add(totals_.num_cached_in_block,
        num_cached < num_prompt_tokens && num_cached % config_.block_size != 0);
    add(totals_.num_repeats_resumed, num_cached == num_prompt_tokens);
    add(totals_.num_chat_turns,
        entry.parent && num_cached > std::ssize(catalog_[*entry.parent].request.prompt));
    totals_.num_prompt_logprobs += std::ssize(record.prompt_logprobs);
  }

  std::span<const CatalogEntry> catalog_;
  Rng rng_;
  MixTotals& totals_;
  TimePoint now_{};
  std::vector<Submission> submissions_;
  SchedulerConfig config_;
  std::unique_ptr<EngineCore> core_;
  std::map<Key, SequenceRecord> records_;
};

}  // namespace

void run_mix(
    TestModel& model, std::span<const CatalogEntry> catalog, uint64_t seed, MixTotals& totals
) {
  Mix(model, catalog, seed, totals).run();
}

}  // namespace millrace
