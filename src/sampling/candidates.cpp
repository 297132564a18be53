#include "sampling/candidates.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/exp.h"
#include "kernels/scores/score_blocks.h"
#include "sampling/exact_draw.h"

namespace millrace {
namespace {

// Fewer than these are sorted: in some microseconds.
constexpr size_t kSortedMax = 256;

// By which more of them are told apart at a time: their sums are 4 KB.
constexpr size_t kNumBuckets = 512;

struct ScoreRange {
  float lowest;
  float highest;
};

// In lanes, so that one comparison need not wait for the last. REQUIRES: not empty, and no NaN.
ScoreRange range_of(std::span<const float> scores) {
  constexpr size_t kNumLanes = 16;
  std::array<float, kNumLanes> lowest;
  std::array<float, kNumLanes> highest;
  lowest.fill(scores.front());
  highest.fill(scores.front());
  size_t i = 0;
  for (; i + kNumLanes <= scores.size(); i += kNumLanes) {
    for (size_t lane = 0; lane < kNumLanes; ++lane) {
      const float score = scores[i + lane];
      lowest[lane] = score < lowest[lane] ? score : lowest[lane];
      highest[lane] = score > highest[lane] ? score : highest[lane];
    }
  }
  ScoreRange range = {std::ranges::min(lowest), std::ranges::max(highest)};
  for (const float score : scores.subspan(i)) {
    range.lowest = std::min(range.lowest, score);
    range.highest = std::max(range.highest, score);
  }
  return range;
}

// Which of equally wide ranges of scores one lies in, the highest first. In doubles, so that no
// difference of floats overflows.
class Buckets {
 public:
  Buckets(float lowest, float highest)
      : highest_(static_cast<double>(highest)),
        per_score_(kNumBuckets / (highest_ - static_cast<double>(lowest))) {}

  uint32_t of(float score) const {
    const auto bucket = static_cast<int32_t>((highest_ - static_cast<double>(score)) * per_score_);
    return static_cast<uint32_t>(std::min(bucket, static_cast<int32_t>(kNumBuckets) - 1));
  }

 private:
  double highest_;
  double per_score_;
};

}  // namespace

void Candidates::gather(
    Isa isa, std::span<const float> scores, std::span<const float> peaks, float bound
) {
  size_t count = 0;
  for (size_t block = 0; block < peaks.size(); ++block) {
    if (peaks[block] < bound) continue;
    const size_t begin = block * kScoresPerBlock;
    if (ids_.size() < count + kScoresPerBlock) {
      ids_.resize(2 * count + kScoresPerBlock);
      scores_.resize(ids_.size());
    }
    const std::span<const float> of_block =
        scores.subspan(begin, std::min(kScoresPerBlock, scores.size() - begin));
    const GatheredScores out = {.ids = &ids_[count], .scores = &scores_[count]};
    count += gather_scores(isa, of_block, bound, static_cast<TokenId>(begin), out);
  }
  ids_.resize(count);
  scores_.resize(count);
  masses_.clear();
}

void Candidates::weigh(Isa isa, float highest, float temperature, float weight_min) {
  weights_.resize(size());
  for (size_t i = 0; i < size(); ++i) weights_[i] = (scores_[i] - highest) / temperature;
  exp_in_place(isa, weights_);
  masses_.resize(size());
  size_t count = 0;
  for (size_t i = 0; i < size(); ++i) {
    if (!(weights_[i] >= weight_min)) continue;  // few: the bound has kept them out
    ids_[count] = ids_[i];
    scores_[count] = scores_[i];
    masses_[count++] = draw_mass(weights_[i]);
  }
  ids_.resize(count);
  scores_.resize(count);
  masses_.resize(count);
}

void Candidates::keep_best(size_t count) {
  undecided_.sizes.assign(size(), 1);
  keep(count);
}

void Candidates::keep_nucleus(uint64_t mass) {
  undecided_.sizes = masses_;
  keep(mass);
}

// Finds the last that is kept, and drops what comes behind it. A nucleus is mostly a few dozen
// tokens out of a hundred thousand, but a flat row's is nearly all of them: sums of buckets say
// which few of them have to be sorted.
void Candidates::keep(uint64_t wanted) {
  undecided_.ids = ids_;
  undecided_.scores = scores_;
  while (undecided_.ids.size() > kSortedMax && undecided_.narrow(wanted)) {
  }
  drop_worse_than(undecided_.last_of(wanted));
}

bool Candidates::Undecided::narrow(uint64_t& wanted) {
  const auto [lowest, highest] = range_of(scores);
  if (lowest == highest) return false;
  const Buckets of_score(lowest, highest);
  buckets.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) buckets[i] = of_score.of(scores[i]);
  std::array<uint64_t, kNumBuckets> sums = {};
  for (size_t i = 0; i < scores.size(); ++i) sums[buckets[i]] += sizes[i];
  uint32_t last = 0;
  for (; sums[last] < wanted; ++last) {
    wanted -= sums[last];
    CHECK(last + 1 < kNumBuckets, "more is wanted than there is");
  }
  size_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (buckets[i] != last) continue;
    ids[count] = ids[i];
    scores[count] = scores[i];
    sizes[count++] = sizes[i];
  }
  ids.resize(count);
  scores.resize(count);
  sizes.resize(count);
  return true;
}

RankedToken Candidates::Undecided::last_of(uint64_t wanted) const {
  struct Ranked {
    RankedToken token;
    uint64_t size;
  };
  std::vector<Ranked> ranked(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ranked[i] = {.token = {.score = scores[i], .id = ids[i]}, .size = sizes[i]};
  }
  const auto is_better = [](const Ranked& a, const Ranked& b) {
    return a.token.is_better_than(b.token);
  };
  // Of many equal scores, which are in order already.
  if (!std::ranges::is_sorted(ranked, is_better)) std::ranges::sort(ranked, is_better);
  for (const Ranked& one : ranked) {
    if (one.size >= wanted) return one.token;
    wanted -= one.size;
  }
  CHECK(false, "more is wanted than there is");
  return {};
}

void Candidates::drop_worse_than(const RankedToken& last) {
  const bool are_weighed = !masses_.empty();
  size_t count = 0;
  for (size_t i = 0; i < size(); ++i) {
    const RankedToken token = {.score = scores_[i], .id = ids_[i]};
    ids_[count] = ids_[i];
    scores_[count] = scores_[i];
    if (are_weighed) masses_[count] = masses_[i];
    count += last.is_better_than(token) ? 0 : 1;
  }
  ids_.resize(count);
  scores_.resize(count);
  if (are_weighed) masses_.resize(count);
}

uint64_t Candidates::mass() const {
  uint64_t sum = 0;
  for (const uint64_t mass : masses_) sum += mass;
  return sum;
}

TokenId Candidates::token_at(uint64_t place) const {
  uint64_t mass = 0;
  for (size_t i = 0; i < size(); ++i) {
    mass += masses_[i];
    if (mass > place) return ids_[i];
  }
  CHECK(false, "a place below the mass of all");
  return 0;
}

std::vector<RankedToken> Candidates::best(size_t count) const {
  std::vector<RankedToken> tokens(size());
  for (size_t i = 0; i < size(); ++i) tokens[i] = {.score = scores_[i], .id = ids_[i]};
  const size_t num_best = std::min(count, tokens.size());
  std::ranges::partial_sort(
      tokens,
      tokens.begin() + static_cast<ptrdiff_t>(num_best),
      [](const RankedToken& a, const RankedToken& b) { return a.is_better_than(b); }
  );
  tokens.resize(num_best);
  return tokens;
}

}  // namespace millrace
