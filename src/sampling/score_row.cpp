#include "sampling/score_row.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace millrace {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// A nucleus is looked for among the scores that reach the peaks of so many blocks, and where these
// hold too little, so many temperatures further down: most have a few dozen tokens, and those of
// thousands are not searched among a hundred thousand. The last is below all that has a weight.
constexpr size_t kNucleusRank = 32;
constexpr float kNucleusDepths[] = {0.0F, 0.5F, 1.5F, 3.5F, 7.5F, 15.5F, 31.0F};

// No lower score has a weight of `weight_min`. The margin is more than what the roundings of a
// weight come to (10^-6 of its logarithm's size, which is below 28).
float lowest_score(float highest, float temperature, float weight_min) {
  const double distance = std::log(static_cast<double>(weight_min)) - 1e-3;
  const double score = static_cast<double>(highest) + static_cast<double>(temperature) * distance;
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<float>::lowest());
  return static_cast<float>(std::max(score, kLowest));
}

}  // namespace

void ScoreRow::read(std::span<const float> scores) {
  CHECK(!scores.empty(), "a token is chosen from at least one");
  scores_ = scores;
  peaks_.resize(num_score_blocks(scores.size()));
  are_finite_ = find_block_peaks(isa_, scores_, peaks_);
  highest_ = *std::ranges::max_element(peaks_);
}

std::optional<TokenId> ScoreRow::best() const {
  if (!std::isfinite(highest_)) return std::nullopt;
  const auto peak = std::ranges::find(peaks_, highest_);
  const ptrdiff_t begin = (peak - peaks_.begin()) * static_cast<ptrdiff_t>(kScoresPerBlock);
  const auto best = std::find(scores_.begin() + begin, scores_.end(), highest_);
  return static_cast<TokenId>(best - scores_.begin());
}

TokenId ScoreRow::draw(const DrawParams& params) {
  CHECK(params.temperature > 0.0F && std::isfinite(highest_), "a draw is of weights");
  if (params.top_k > 0 || params.min_p > kWeightMin) {
    gather_few(params);
  } else {
    const uint64_t mass = sum_masses(params.temperature);
    if (params.top_p >= 1.0F) return token_at(draw_place(params.unit, mass), params.temperature);
    gather_nucleus(params, nucleus_mass(params.top_p, mass));
  }
  return candidates_.token_at(draw_place(params.unit, candidates_.mass()));
}

uint64_t ScoreRow::sum_masses(float temperature) {
  masses_.resize(peaks_.size());
  sum_block_masses(isa_, scores_, highest_, temperature, masses_);
  return std::accumulate(masses_.begin(), masses_.end(), uint64_t{0});
}

// The first with which the mass exceeds `place`, of all tokens. REQUIRES: masses_ are of this
// temperature, and have more than `place` together.
TokenId ScoreRow::token_at(uint64_t place, float temperature) {
  size_t block = 0;
  for (; masses_[block] <= place; ++block) place -= masses_[block];
  const size_t begin = block * kScoresPerBlock;
  const auto of_block = scores_.subspan(begin, std::min(kScoresPerBlock, scores_.size() - begin));
  candidates_.gather(isa_, of_block, std::span(peaks_).subspan(block, 1), kNever);
  candidates_.weigh(isa_, highest_, temperature, kWeightMin);
  return static_cast<TokenId>(begin) + candidates_.token_at(place);
}

// What top_k and min_p leave, and top_p of that.
void ScoreRow::gather_few(const DrawParams& params) {
  const float weight_min = std::max(params.min_p, kWeightMin);
  float bound = lowest_score(highest_, params.temperature, weight_min);
  const auto top_k = static_cast<size_t>(std::max(params.top_k, 0));
  if (top_k > 0) bound = std::max(bound, peak_of_rank(top_k));
  gather(bound);
  candidates_.weigh(isa_, highest_, params.temperature, weight_min);
  if (top_k > 0 && top_k < candidates_.size()) candidates_.keep_best(top_k);
  if (params.top_p < 1.0F) {
    candidates_.keep_nucleus(nucleus_mass(params.top_p, candidates_.mass()));
  }
}

// The fewest best tokens that hold `mass`.
void ScoreRow::gather_nucleus(const DrawParams& params, uint64_t mass) {
  const float lowest = lowest_score(highest_, params.temperature, kWeightMin);
  const float highest = peaks_.size() < kNucleusRank ? highest_ : peak_of_rank(kNucleusRank);
  for (const float depth : kNucleusDepths) {
    gather(std::max(highest - depth * params.temperature, lowest));
    candidates_.weigh(isa_, highest_, params.temperature, kWeightMin);
    if (candidates_.mass() >= mass) break;
  }
  candidates_.keep_nucleus(mass);
}

// At least so many scores reach it: the block peak of that rank. -inf: there are not as many
// blocks.
float ScoreRow::peak_of_rank(size_t rank) {
  if (rank > peaks_.size()) return kNever;
  ranked_peaks_ = peaks_;
  const auto nth = ranked_peaks_.begin() + static_cast<ptrdiff_t>(rank - 1);
  std::ranges::nth_element(ranked_peaks_, nth, std::greater());
  return *nth;
}

double ScoreRow::log_sum_exp() {
  const auto sum = static_cast<double>(sum_masses(1.0F)) / static_cast<double>(kMassOfBest);
  return static_cast<double>(highest_) + std::log(sum);
}

std::vector<RankedToken> ScoreRow::best_tokens(size_t count) {
  if (count == 0) return {};
  gather(peak_of_rank(count));
  return candidates_.best(count);
}

}  // namespace millrace
