// The tokens of a row that may be drawn, and the best of them. Scratch memory of a ScoreRow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/id.h"
#include "kernels/isa.h"

namespace millrace {

// A token's place among those of a row: by score, descending; of equal scores the lower id first.
struct RankedToken {
  float score = 0.0F;
  TokenId id = 0;

  bool is_better_than(const RankedToken& other) const {
    return score != other.score ? score > other.score : id < other.id;
  }
};

// In the order of their ids, with a mass each once they are weighed.
class Candidates {
 public:
  size_t size() const { return ids_.size(); }

  // Those of a row whose score is at least `bound`, instead of what is here. `peaks`: those of its
  // blocks (kernels/scores/score_blocks.h). They have no masses yet.
  void gather(Isa isa, std::span<const float> scores, std::span<const float> peaks, float bound);

  // Gives each its mass, and drops those of less weight than `weight_min` (exact_draw.h).
  void weigh(Isa isa, float highest, float temperature, float weight_min);

  // Keep the best: so many, or the fewest that hold `mass`. REQUIRES: as many, or as much, are
  // here; for keep_nucleus() they are weighed.
  void keep_best(size_t count);
  void keep_nucleus(uint64_t mass);

  uint64_t mass() const;

  // The first with which the masses so far exceed `place`. REQUIRES: place < mass().
  TokenId token_at(uint64_t place) const;

  // The best, at most so many, best first.
  std::vector<RankedToken> best(size_t count) const;

 private:
  // Those among which the last that is kept is looked for.
  struct Undecided {
    std::vector<TokenId> ids;
    std::vector<float> scores;
    std::vector<uint64_t> sizes;    // of what is kept: 1 of a count, or the mass
    std::vector<uint32_t> buckets;  // scratch

    // Takes away those that are surely kept, and subtracts their sizes from `wanted`, and those
    // that surely are not. false: all have the same score.
    bool narrow(uint64_t& wanted);
    // The last of the best whose sizes add up to `wanted`.
    RankedToken last_of(uint64_t wanted) const;
  };

  // REQUIRES: undecided_.sizes are set.
  void keep(uint64_t wanted);
  void drop_worse_than(const RankedToken& last);

  std::vector<TokenId> ids_;
  std::vector<float> scores_;     // [size()]
  std::vector<float> weights_;    // scratch of weigh()
  std::vector<uint64_t> masses_;  // [size()], once weighed
  Undecided undecided_;
};

}  // namespace millrace
