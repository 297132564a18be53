// The instructions themselves, on whatever carries them out: with AMX this tests the processor, and
// so what the emulator is compared with here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "emulated_amx/half.h"
#include "kernels/amx_tiles.h"
#include "kernels/denormals.h"
#include "kernels/isa.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

class EmulatedAmx : public testing::Test {
 protected:
  void SetUp() override {
    if (std::ranges::count(supported_isas(), Isa::kAmx) == 0) {
      GTEST_SKIP() << "this processor has not what AMX is emulated with";
    }
  }
};
using EmulatedAmxDeathTest = EmulatedAmx;

// Sums of 5 rows and 12 columns, of 9 steps.
constexpr size_t kSumRows = 5;
constexpr size_t kSumColumns = 12;
constexpr size_t kSteps = 9;

TileShapes odd_shapes() {
  TileShapes shapes;
  shapes.set(0, kSumRows, kSumColumns * 4);
  shapes.set(1, kSumRows, kSteps * 4);
  shapes.set(2, kSteps, kSumColumns * 4);
  return shapes;
}

// Numbers of all magnitudes, denormals and zeros among them.
std::vector<BFloat16> random_bfloat16(size_t size) {
  std::mt19937 random(3);
  std::vector<BFloat16> values(size);
  for (BFloat16& value : values) {
    const auto exponent = random() % 8 == 0 ? random() % 3 : 100 + random() % 50;
    value.bits = static_cast<uint16_t>((random() & 0x807F) | exponent << 7);
  }
  return values;
}

TEST_F(EmulatedAmx, AddsProductsOfBytes) {
  std::mt19937 random(2);
  std::vector<int8_t> left(kSumRows * kSteps * 4);
  std::vector<int8_t> right(kSteps * kSumColumns * 4);
  for (int8_t& value : left) value = static_cast<int8_t>(random());
  for (int8_t& value : right) value = static_cast<int8_t>(random());
  std::vector<int32_t> sums(kSumRows * kSumColumns, 1000);
  {
    const TileShapes shapes = odd_shapes();
    const TileScope scope(shapes);
    load_tile<0>(sums.data(), kSumColumns * 4);
    load_tile<1>(left.data(), kSteps * 4);
    load_passing_tile<2>(right.data(), kSumColumns * 4);
    add_byte_products<0, 1, 2>();
    add_byte_products<0, 1, 2>();
    store_tile<0>(sums.data(), kSumColumns * 4);
  }
  for (size_t m = 0; m < kSumRows; ++m) {
    for (size_t n = 0; n < kSumColumns; ++n) {
      int32_t expected = 1000;
      for (size_t i = 0; i < kSteps * 4; ++i) {
        const size_t place = (i / 4 * kSumColumns + n) * 4 + i % 4;
        expected += 2 * left[m * kSteps * 4 + i] * right[place];
      }
      EXPECT_EQ(sums[m * kSumColumns + n], expected) << m << ' ' << n;
    }
  }
}

TEST_F(EmulatedAmx, AddsProductsOfPairsInTwoChains) {
  const std::vector<BFloat16> left = random_bfloat16(kSumRows * kSteps * 2);
  const std::vector<BFloat16> right = random_bfloat16(kSteps * kSumColumns * 2);
  std::vector<float> sums(kSumRows * kSumColumns, 0.5F);
  {
    const TileShapes shapes = odd_shapes();
    const TileScope scope(shapes);
    load_tile<0>(sums.data(), kSumColumns * 4);
    load_tile<1>(left.data(), kSteps * 4);
    load_tile<2>(right.data(), kSumColumns * 4);
    add_pair_products<0, 1, 2>();
    store_tile<0>(sums.data(), kSumColumns * 4);
  }
  const DenormalsAreZero scope;
  for (size_t m = 0; m < kSumRows; ++m) {
    for (size_t n = 0; n < kSumColumns; ++n) {
      float chains[2] = {};
      for (size_t i = 0; i < kSteps * 2; ++i) {
        const float weight = to_float(right[(i / 2 * kSumColumns + n) * 2 + i % 2]);
        chains[i % 2] = std::fma(to_float(left[m * kSteps * 2 + i]), weight, chains[i % 2]);
      }
      EXPECT_EQ(sums[m * kSumColumns + n], 0.5F + (chains[0] + chains[1])) << m << ' ' << n;
    }
  }
}

TEST_F(EmulatedAmx, StoresRowsWhereTheyAreWantedAndNothingElse) {
  TileShapes shapes;
  shapes.set(6, 3, 8);
  const std::vector<uint8_t> data = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint8_t> out(40, 99);
  {
    const TileScope scope(shapes);
    load_tile<6>(data.data(), 0);  // the same row thrice
    store_tile<6>(out.data(), 16);
  }
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i % 16 < 8 ? data[i % 16] : 99) << i;
}

// Registers above zmm15 are saved apart from the others.
TEST_F(EmulatedAmx, CalculatesWithHalvesInEveryRegister) {
  std::mt19937 random(4);
  uint16_t a[32];
  uint16_t b[32];
  uint16_t out[4][32];
  for (uint16_t& value : a) value = static_cast<uint16_t>(random());
  for (uint16_t& value : b) value = static_cast<uint16_t>(random() % 0x7000);  // no NaN
  asm volatile(
      "vmovdqu64 (%0), %%zmm3\n"
      "vmovdqu64 (%1), %%zmm21\n"
      "vcvtuw2ph %%zmm3, %%zmm18\n"
      "vcvtw2ph %%zmm3, %%zmm4\n"
      "vmovdqu64 %%zmm18, (%2)\n"
      "vmovdqu64 %%zmm4, 64(%2)\n"
      "vmovdqu64 %%zmm21, %%zmm5\n"
      "vfmadd132ph %%zmm21, %%zmm4, %%zmm5\n"  // b * b + word
      "vmovdqu64 %%zmm5, 128(%2)\n"
      "vfmadd231ph %%zmm21, %%zmm21, %%zmm4\n"  // the same
      "vmovdqu64 %%zmm4, 192(%2)\n"
      "vzeroupper\n"
      :
      : "r"(a), "r"(b), "r"(out)
      : "memory", "xmm3", "xmm4", "xmm5"
  );
  for (size_t i = 0; i < 32; ++i) {
    const Float16 word = emulated_amx::half_of(static_cast<int16_t>(a[i]));
    const Float16 factor{b[i]};
    EXPECT_EQ(out[0][i], emulated_amx::half_of(a[i]).bits) << i;
    EXPECT_EQ(out[1][i], word.bits) << i;
    EXPECT_EQ(out[2][i], emulated_amx::multiply_add(factor, factor, word).bits) << i;
    EXPECT_EQ(out[3][i], out[2][i]) << i;
  }
}

TEST_F(EmulatedAmxDeathTest, EndsTheProgramWhereAProcessorWould) {
  float sums[256] = {};
  EXPECT_DEATH(store_tile<0>(sums, 64), "");  // no tile has a shape
  const auto multiply_misfits = [] {
    TileShapes shapes;
    shapes.set(0, 4);
    shapes.set(1, 5);
    shapes.set(2, 16);
    const TileScope scope(shapes);
    add_byte_products<0, 1, 2>();
  };
  EXPECT_DEATH(multiply_misfits(), "");
  EXPECT_EXIT(asm volatile("ud2"), testing::KilledBySignal(SIGILL), "");
}

}  // namespace
}  // namespace millrace
