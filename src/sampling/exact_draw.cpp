#include "sampling/exact_draw.h"

#include <array>
#include <limits>

#include "base/check.h"
#include "kernels/exp.h"

namespace millrace {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float higher(float score, float highest) {
  return score > highest ? score : highest;  // NaN is not higher
}

// In lanes, so that one comparison need not wait for the last.
float highest_of(std::span<const float> scores) {
  constexpr size_t kLanes = 32;
  std::array<float, kLanes> highest;
  highest.fill(kNever);
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      highest[lane] = higher(scores[i + lane], highest[lane]);
    }
  }
  float of_all = kNever;
  for (const float of_lane : highest) of_all = higher(of_lane, of_all);
  for (const float score : scores.subspan(i)) of_all = higher(score, of_all);
  return of_all;
}

// Up to so many of the best come out of a heap; more are parted from the rest, then sorted.
constexpr size_t kHeapMax = 1024;

}  // namespace

TokenId best_token(std::span<const float> scores) {
  CHECK(!scores.empty(), "a token is chosen from at least one");
  const auto best = std::ranges::find(scores, highest_of(scores));
  return best == scores.end() ? 0 : static_cast<TokenId>(best - scores.begin());
}

TokenId ExactDraw::draw(std::span<const float> scores, TokenId best, const DrawParams& params) {
  CHECK(params.temperature > 0.0F, "a draw has a temperature");
  weigh(scores, scores[static_cast<size_t>(best)], params.temperature);
  gather_candidates(scores, params.min_p);
  if (params.top_k > 0) keep_best(static_cast<size_t>(params.top_k));
  if (params.top_p < 1.0F) keep_nucleus(params.top_p);
  return token_at(draw_place(params.unit, total_mass()));
}

void ExactDraw::weigh(std::span<const float> scores, float highest, float temperature) {
  weights_.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) weights_[i] = (scores[i] - highest) / temperature;
  exp_in_place(isa_, weights_);
}

void ExactDraw::gather_candidates(std::span<const float> scores, float min_p) {
  const float weight_min = std::max(min_p, kWeightMin);
  candidates_.resize(scores.size());
  size_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    candidates_[count] = {static_cast<TokenId>(i), scores[i]};
    count += weights_[i] >= weight_min ? 1 : 0;
  }
  candidates_.resize(count);
}

void ExactDraw::keep_best(size_t count) {
  if (count >= candidates_.size()) return;
  sort_best(0, count);
  candidates_.resize(count);
  std::ranges::sort(candidates_, {}, &Candidate::id);
}

void ExactDraw::sort_best(size_t first, size_t last) {
  const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(first);
  const auto middle = candidates_.begin() + static_cast<ptrdiff_t>(last);
  if (last - first <= kHeapMax) {
    std::partial_sort(begin, middle, candidates_.end(), is_better);
  } else {
    std::nth_element(begin, middle, candidates_.end(), is_better);
    std::sort(begin, middle, is_better);
  }
}

// Sorts only as far as it must: a nucleus is mostly a few dozen tokens out of a hundred thousand.
void ExactDraw::keep_nucleus(float top_p) {
  const uint64_t wanted = nucleus_mass(top_p, total_mass());
  uint64_t mass = 0;
  size_t num_kept = 0;
  size_t num_sorted = 0;
  while (mass < wanted) {
    if (num_kept == num_sorted) {
      const size_t num_wanted = std::min(candidates_.size(), num_sorted * 8 + 64);
      sort_best(num_sorted, num_wanted);
      num_sorted = num_wanted;
    }
    mass += mass_of(candidates_[num_kept++]);
  }
  candidates_.resize(num_kept);
  std::ranges::sort(candidates_, {}, &Candidate::id);
}

uint64_t ExactDraw::total_mass() const {
  uint64_t total = 0;
  for (const Candidate& candidate : candidates_) total += mass_of(candidate);
  return total;
}

TokenId ExactDraw::token_at(uint64_t place) const {
  uint64_t mass = 0;
  for (const Candidate& candidate : candidates_) {
    mass += mass_of(candidate);
    if (mass > place) return candidate.id;
  }
  CHECK(false, "a place below the mass of all");
  return candidates_.back().id;
}

}  // namespace millrace
