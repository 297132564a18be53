#include "kernels/scores/score_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/exp.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 300, 512, 1000};

// Spread over 40, with some that are impossible or no number.
std::vector<float> some_scores(size_t size, uint64_t seed) {
  std::vector<float> scores = random_floats(size, seed);
  for (size_t i = 0; i < size; ++i) {
    scores[i] *= 20.0F;
    if (i % 37 == 5) scores[i] = -kInfinity;
    if (i % 41 == 7) scores[i] = kNan;
  }
  return scores;
}

float highest_of(std::span<const float> scores) {
  float highest = -kInfinity;
  for (const float score : scores) highest = score > highest ? score : highest;
  return highest;
}

std::span<const float> block_of(std::span<const float> scores, size_t block) {
  const size_t begin = block * kScoresPerBlock;
  return scores.subspan(begin, std::min(kScoresPerBlock, scores.size() - begin));
}

TEST(ScoreBlocks, PeaksAreThoseOfTheBlocks) {
  for (const size_t size : kSizes) {
    const std::vector<float> scores = some_scores(size, size);
    for (const Isa isa : supported_isas()) {
      std::vector<float> peaks(num_score_blocks(size));
      const bool all_finite = find_block_peaks(isa, scores, peaks);
      EXPECT_EQ(all_finite, std::ranges::all_of(scores, [](float x) { return std::isfinite(x); }));
      for (size_t block = 0; block < peaks.size(); ++block) {
        EXPECT_EQ(peaks[block], highest_of(block_of(scores, block))) << name_of(isa) << size;
      }
    }
  }
}

TEST(ScoreBlocks, ABlockOfNothingHasNoPeak) {
  const std::vector<float> scores(300, kNan);
  for (const Isa isa : supported_isas()) {
    std::vector<float> peaks(2);
    EXPECT_FALSE(find_block_peaks(isa, scores, peaks));
    EXPECT_EQ(peaks, (std::vector<float>{-kInfinity, -kInfinity})) << name_of(isa);
  }
}

TEST(ScoreBlocks, MassesAreSumsOfIntegers) {
  for (const size_t size : kSizes) {
    const std::vector<float> scores = some_scores(size, size);
    const float highest = highest_of(scores);
    for (const float temperature : {1e-30F, 0.3F, 1.0F, 7.0F}) {
      std::vector<uint64_t> expected(num_score_blocks(size), 0);
      for (size_t i = 0; i < size; ++i) {
        const float weight = exp_reference((scores[i] - highest) / temperature);
        if (std::isnan(weight)) continue;
        expected[i / kScoresPerBlock] += static_cast<uint64_t>(weight * kMassOfBest);
      }
      for (const Isa isa : supported_isas()) {
        std::vector<uint64_t> found(expected.size());
        sum_block_masses(isa, scores, highest, temperature, found);
        EXPECT_EQ(found, expected) << name_of(isa) << ", " << size << ", " << temperature;
      }
    }
  }
}

TEST(ScoreBlocks, AFullBlockOfTheBestIsCountedExactly) {
  const std::vector<float> scores(kScoresPerBlock, -3.5F);
  for (const Isa isa : supported_isas()) {
    std::vector<uint64_t> masses(1);
    sum_block_masses(isa, scores, -3.5F, 1.0F, masses);
    EXPECT_EQ(masses[0], uint64_t{1} << 48) << name_of(isa);
  }
}

TEST(ScoreBlocks, GathersWhatReachesABound) {
  for (const size_t size : kSizes) {
    if (size > kScoresPerBlock) continue;
    const std::vector<float> scores = some_scores(size, size + 1);
    for (const float bound : {-kInfinity, -30.0F, 0.0F, scores[size / 2], 15.0F, 30.0F}) {
      std::vector<int32_t> expected;
      for (size_t i = 0; i < size; ++i) {
        if (scores[i] >= bound) expected.push_back(1000 + static_cast<int32_t>(i));
      }
      for (const Isa isa : supported_isas()) {
        std::vector<int32_t> ids(kScoresPerBlock);
        std::vector<float> gathered(kScoresPerBlock);
        const GatheredScores out = {.ids = ids.data(), .scores = gathered.data()};
        const size_t count = gather_scores(isa, scores, bound, 1000, out);
        ids.resize(count);
        EXPECT_EQ(ids, expected) << name_of(isa) << ", " << size << ", " << bound;
        for (size_t i = 0; i < count; ++i) {
          EXPECT_EQ(gathered[i], scores[static_cast<size_t>(ids[i]) - 1000]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
