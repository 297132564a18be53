// The limits measure what they say: every byte is read and every multiply-add is done, with each
// instruction set and number of threads. How fast is not tested: that is the machine's business.
#include "kernels/machine_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/available.h"
#include "kernels/machine_limits_kernel.h"

namespace millrace {
namespace {

constexpr size_t kSmall = size_t{3} << 20;

TEST(MachineLimits, ReadEveryByteOnceWithEachInstructionSetAndNumberOfThreads) {
  for (const size_t num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    for (const Isa isa : supported_isas()) {
      for (const size_t num_bytes : {size_t{1}, kReadBlock, 7 * kReadBlock, kSmall + 1}) {
        MachineLimits limits = *MachineLimits::prepare(pool, isa, num_bytes);
        EXPECT_GE(limits.num_bytes_read(), num_bytes);
        EXPECT_EQ(limits.read_once(), limits.word_sum_expected())
            << name_of(isa) << ", " << num_threads << " threads, " << num_bytes << " bytes";
      }
    }
  }
}

TEST(MachineLimits, SumTheWordsThatAreThere) {
  alignas(64) uint64_t words[3 * kReadBlock / sizeof(uint64_t)];
  uint64_t expected = 0;
  for (uint64_t i = 0; uint64_t & word : words) {
    word = ~(i++ << 40);
    expected += word;
  }
  EXPECT_EQ(sum_words_reference(words, sizeof(words)), expected);
  const auto can_run = [](Isa isa) { return std::ranges::count(supported_isas(), isa) == 1; };
  if (can_run(Isa::kAvx2)) {
    EXPECT_EQ(sum_words_avx2(words, sizeof(words)), expected);
  }
  if (can_run(Isa::kAvx512)) {
    EXPECT_EQ(sum_words_avx512(words, sizeof(words)), expected);
  }
}

// Sums per instruction times lanes times products of a lane, times rounds.
TEST(MachineLimits, CountTheMultiplyAddsThatWereDone) {
  constexpr size_t kRounds = 1600;
  const auto expected = [](DotInstruction instruction) -> uint64_t {
    switch (instruction) {
      case DotInstruction::kMulpsAddps:
        return kRounds * kDotSumsYmm * 4;
      case DotInstruction::kVfmaddYmm:
        return kRounds * kDotSumsYmm * 8;
      case DotInstruction::kVfmaddZmm:
        return kRounds * kDotSumsZmm * 16;
      case DotInstruction::kVdpbf16psZmm:
        return kRounds * kDotSumsZmm * 16 * 2;
      case DotInstruction::kVpmaddwdYmm:
        return kRounds * kDotSumsYmm * 8 * 2;
      case DotInstruction::kVpmaddwdZmm:
        return kRounds * kDotSumsZmm * 16 * 2;
      case DotInstruction::kVpmaddubswYmm:
        return kRounds * kDotSumsYmm * 8 * 8;
      case DotInstruction::kVpmaddubswZmm:
        return kRounds * kDotSumsZmm * 16 * 8;
      case DotInstruction::kVpdpbusdYmm:
        return kRounds * kDotSumsYmm * 8 * 4;
      case DotInstruction::kVpdpbusdZmm:
        return kRounds * kDotSumsZmm * 16 * 4;
      case DotInstruction::kTdpbf16psTile:
        return kRounds / 16 * kDotSumsTile * 16 * 16 * 32;
      case DotInstruction::kTdpbssdTile:
        return kRounds / 16 * kDotSumsTile * 16 * 16 * 64;
    }
    return 0;
  };
  for (const DotInstruction instruction : supported_dot_instructions()) {
    ThreadPool one(1);
    ThreadPool three(3);
    MachineLimits alone = *MachineLimits::prepare(one, best_isa(), kSmall);
    MachineLimits together = *MachineLimits::prepare(three, best_isa(), kSmall);
    const uint64_t count = alone.run_multiply_adds(instruction);
    EXPECT_GT(count, 0U) << name_of(instruction);
    EXPECT_EQ(count % (expected(instruction) / kRounds), 0U) << name_of(instruction);
    EXPECT_EQ(together.run_multiply_adds(instruction), 3 * count) << "each thread does its share";
  }
  EXPECT_EQ(count_mulps_addps(kRounds), expected(DotInstruction::kMulpsAddps));
  if (std::ranges::count(supported_isas(), Isa::kAmx) == 1) {
    EXPECT_EQ(count_tdpbf16ps_tile(kRounds), expected(DotInstruction::kTdpbf16psTile));
    EXPECT_EQ(count_tdpbssd_tile(kRounds), expected(DotInstruction::kTdpbssdTile));
  }
}

TEST(MachineLimits, AreWithinWhatAnyMachineHas) {
  ThreadPool pool(num_available_cpus());
  MachineLimits limits = *MachineLimits::prepare(pool, best_isa(), kSmall);
  const double read = limits.measure_read_bytes_per_second();
  EXPECT_GT(read, 1e6);
  EXPECT_LT(read, 1e15);
  for (const DotInstruction instruction : supported_dot_instructions()) {
    const double operations = limits.measure_operations_per_second(instruction);
    EXPECT_GT(operations, 1e6) << name_of(instruction);
    EXPECT_LT(operations, 1e16) << name_of(instruction);
  }
}

TEST(DotInstruction, IsTheOperandsOwnWhereTheProcessorHasIt) {
  const std::vector<DotInstruction> all = supported_dot_instructions();
  const auto has = [&](DotInstruction instruction) {
    return std::ranges::count(all, instruction) == 1;
  };
  EXPECT_EQ(all.front(), DotInstruction::kMulpsAddps);
  for (const Isa isa : supported_isas()) {
    if (isa == Isa::kAmx && best_isa() != Isa::kAmx) continue;  // an emulated one
    for (const auto operands :
         {DotOperands::kFloat32, DotOperands::kBFloat16, DotOperands::kInt16, DotOperands::kInt8}) {
      EXPECT_TRUE(has(fastest_dot_instruction(operands, isa))) << name_of(isa);
    }
  }
  EXPECT_EQ(
      fastest_dot_instruction(DotOperands::kInt8, Isa::kReference), DotInstruction::kMulpsAddps
  );
  if (has(DotInstruction::kVpmaddwdYmm)) {
    EXPECT_EQ(
        fastest_dot_instruction(DotOperands::kInt16, Isa::kAvx2), DotInstruction::kVpmaddwdYmm
    );
  }
  if (has(DotInstruction::kVpmaddubswYmm) && !has(DotInstruction::kVpdpbusdYmm)) {
    EXPECT_EQ(
        fastest_dot_instruction(DotOperands::kInt8, Isa::kAvx2), DotInstruction::kVpmaddubswYmm
    );
  }
  if (has(DotInstruction::kVdpbf16psZmm)) {
    EXPECT_EQ(
        fastest_dot_instruction(DotOperands::kBFloat16, Isa::kAvx512),
        prefers_floats() ? DotInstruction::kVfmaddZmm : DotInstruction::kVdpbf16psZmm
    );
    EXPECT_EQ(
        fastest_dot_instruction(DotOperands::kFloat32, Isa::kAvx512), DotInstruction::kVfmaddZmm
    );
  }
  if (has(DotInstruction::kTdpbssdTile)) {
    EXPECT_EQ(
        fastest_dot_instruction(DotOperands::kBFloat16, Isa::kAmx), DotInstruction::kTdpbf16psTile
    );
    EXPECT_EQ(fastest_dot_instruction(DotOperands::kInt8, Isa::kAmx), DotInstruction::kTdpbssdTile);
  }
  if (has(DotInstruction::kVpdpbusdZmm)) {
    EXPECT_EQ(
        fastest_dot_instruction(DotOperands::kInt8, Isa::kAvx512), DotInstruction::kVpdpbusdZmm
    );
  }
}

TEST(DotInstruction, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const DotInstruction instruction : supported_dot_instructions()) {
    names.insert(name_of(instruction));
  }
  EXPECT_EQ(names.size(), supported_dot_instructions().size());
}

TEST(MachineLimits, ReadMoreThanTheCachesOfAnyMachineHold) {
  EXPECT_EQ(MachineLimits::num_bytes_beyond_caches(1), size_t{512} << 20);
  EXPECT_EQ(MachineLimits::num_bytes_beyond_caches(8), size_t{512} << 20);
  EXPECT_EQ(MachineLimits::num_bytes_beyond_caches(96), size_t{6} << 30);
}

}  // namespace
}  // namespace millrace
