#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace millrace {
namespace {

TEST(RopeTable, HoldsCosinesAndSinesOfPositionTimesFrequency) {
  ThreadPool pool(2);
  const RopeOptions options = {
      .head_dim = 12, .theta = 10000.0, .scaling = std::nullopt, .num_positions = 300};
  const RopeTable table = *RopeTable::make(options, pool);
  for (size_t position = 0; position < 300; ++position) {
    for (size_t i = 0; i < 6; ++i) {
      const double angle =
          static_cast<double>(position) / std::pow(10000.0, static_cast<double>(i) / 6);
      EXPECT_NEAR(table.cosines(position)[i], std::cos(angle), 4e-5);
      EXPECT_NEAR(table.sines(position)[i], std::sin(angle), 4e-5);
    }
  }
  EXPECT_EQ(table.cosines(0)[0], 1.0F);
  EXPECT_EQ(table.sines(0)[5], 0.0F);
}

// LlamaRotaryEmbedding of transformers 5.23 with head_dim 64, theta 500000 and Llama 3.1's scaling.
TEST(RopeFrequencies, MatchTransformersWithLlama3Scaling) {
  const std::vector<float> frequencies = rope_frequencies(
      {.head_dim = 64, .theta = 500000.0, .scaling = RopeScaling{}, .num_positions = 0}
  );
  const std::pair<size_t, float> expected[] = {
      {0, 0x1.0000000000000p+0F},
      {1, 0x1.53c38c0000000p-1F},
      {8, 0x1.3411900000000p-5F},
      {14, 0x1.a4ee400000000p-9F},
      {15, 0x1.67a23a0000000p-10F},
      {16, 0x1.132ba40000000p-11F},
      {17, 0x1.765ba40000000p-13F},
      {18, 0x1.46831a0000000p-14F},
      {24, 0x1.be21880000000p-18F},
      {31, 0x1.9483600000000p-22F},
  };
  for (const auto& [i, frequency] : expected) EXPECT_FLOAT_EQ(frequencies[i], frequency) << i;
}

TEST(RopeFrequencies, StretchOnlyLongWavelengths) {
  const RopeOptions plain = {
      .head_dim = 128, .theta = 500000.0, .scaling = std::nullopt, .num_positions = 0};
  RopeOptions scaled = plain;
  scaled.scaling = RopeScaling{};
  const std::vector<float> before = rope_frequencies(plain);
  const std::vector<float> after = rope_frequencies(scaled);
  EXPECT_EQ(after.front(), before.front());
  EXPECT_EQ(after.back(), before.back() / 8.0F);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_LE(after[i], before[i]);
    EXPECT_GE(after[i], before[i] / 8.0F);
  }
}

}  // namespace
}  // namespace millrace
