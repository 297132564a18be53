#include "quantization/input_moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

// Batches of rows that stand in wider ones.
struct Batches {
  size_t num_columns;
  size_t stride;
  std::vector<std::vector<float>> rows;  // each [num_tokens, stride]

  ConstRows at(size_t batch) const {
    return {rows[batch].data(), rows[batch].size() / stride, num_columns, stride};
  }
};

Batches random_batches(size_t num_columns, std::initializer_list<size_t> sizes) {
  Batches batches{.num_columns = num_columns, .stride = num_columns + 5, .rows = {}};
  for (const size_t size : sizes) {
    batches.rows.push_back(random_floats(size * batches.stride, num_columns + size));
  }
  return batches;
}

constexpr MatrixPlace kPlace = {MatrixKind::kDown, 2};

InputMoments observed(const Batches& batches, ThreadPool& pool, Isa isa = best_isa()) {
  InputMoments moments(pool, isa);
  for (size_t i = 0; i < batches.rows.size(); ++i) moments.observe(kPlace, batches.at(i));
  return moments;
}

double sum_of_products(const Batches& batches, size_t i, size_t j) {
  double sum = 0.0;
  for (size_t batch = 0; batch < batches.rows.size(); ++batch) {
    const ConstRows x = batches.at(batch);
    for (size_t token = 0; token < x.num_rows; ++token) {
      sum += static_cast<double>(x.row(token)[i]) * static_cast<double>(x.row(token)[j]);
    }
  }
  return sum;
}

// The inputs of one block: what is far from the sums, and padding that is not zero.
void expect_sums(const Batches& batches, const BlockMoments& moments, size_t block) {
  const size_t begin = block * BlockMoments::kBlock;
  const size_t size = moments.block_size(block);
  ASSERT_EQ(moments.blocks[block].size(), size * size);
  size_t num_wrong = 0;
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      const auto found = static_cast<double>(moments.blocks[block][i * size + j]);
      const bool is_padding = begin + std::max(i, j) >= batches.num_columns;
      if (is_padding) {
        num_wrong += found == 0.0 ? 0 : 1;
        continue;
      }
      const double expected = sum_of_products(batches, begin + i, begin + j);
      num_wrong += std::abs(found - expected) < 1e-5 ? 0 : 1;
    }
  }
  EXPECT_EQ(num_wrong, 0U) << batches.num_columns << " inputs, block " << block;
}

TEST(InputMoments, AreTheSumsOfProductsOfInputsOverAllBatches) {
  ThreadPool pool(2);
  for (const size_t num_columns : {1, 52, 64, 130, 200, 1024, 1100, 2049}) {
    const Batches batches = random_batches(num_columns, {5, 1, 8});
    const InputMoments all = observed(batches, pool);
    const BlockMoments& moments = all.at(kPlace);
    EXPECT_EQ(moments.num_inputs, round_up(num_columns, size_t{64}));
    ASSERT_EQ(moments.blocks.size(), div_ceil(num_columns, size_t{1024}));
    for (size_t block = 0; block < moments.blocks.size(); ++block) {
      expect_sums(batches, moments, block);
    }
    const size_t last = num_columns - 1;
    const double square = sum_of_products(batches, last, last);
    EXPECT_NEAR(static_cast<double>(moments.square(last)), square, 1e-5);
  }
}

TEST(InputMoments, HaveTheSameBitsWithAnyThreadsAndInstructionSet) {
  for (const size_t num_columns : {75, 1100}) {
    const Batches batches = random_batches(num_columns, {19, 2});
    ThreadPool one(1);
    const InputMoments expected = observed(batches, one, Isa::kReference);
    const BlockMoments& blocks = expected.at(kPlace);
    for (const size_t num_threads : {1, 2, 3, 5}) {
      ThreadPool pool(num_threads);
      for (const Isa isa : supported_isas()) {
        const InputMoments found = observed(batches, pool, isa);
        for (size_t block = 0; block < blocks.blocks.size(); ++block) {
          EXPECT_EQ(bits_of(found.at(kPlace).blocks[block]), bits_of(blocks.blocks[block]))
              << num_columns << " inputs, " << num_threads << " threads, " << name_of(isa);
        }
      }
    }
  }
}

TEST(InputMoments, KeepEachMatrixApart) {
  ThreadPool pool(1);
  InputMoments moments(pool);
  const MatrixPlace places[] = {
      {MatrixKind::kQkv, 0}, {MatrixKind::kQkv, 1}, {MatrixKind::kGateUp, 0}, {MatrixKind::kHead}};
  for (size_t i = 0; i < std::size(places); ++i) {
    const auto value = static_cast<float>(i + 1);
    moments.observe(places[i], {.data = &value, .num_rows = 1, .num_columns = 1, .stride = 1});
  }
  for (size_t i = 0; i < std::size(places); ++i) {
    EXPECT_EQ(moments.at(places[i]).square(0), static_cast<float>((i + 1) * (i + 1)));
  }
}

TEST(InputMoments, LearnNothingFromABatchWithoutRows) {
  ThreadPool pool(1);
  InputMoments moments(pool);
  const float value = 3.0F;
  const ConstRows none = {.data = &value, .num_rows = 0, .num_columns = 1, .stride = 1};
  moments.observe(kPlace, none);
  moments.observe(kPlace, {.data = &value, .num_rows = 1, .num_columns = 1, .stride = 1});
  moments.observe(kPlace, none);
  EXPECT_EQ(moments.at(kPlace).square(0), 9.0F);
}

TEST(InputMoments, SayOfWhichMatrixInputsAreNotFinite) {
  ThreadPool pool(1);
  for (const float bad : {NAN, INFINITY, 1e30F}) {
    InputMoments moments(pool);
    const std::vector<float> good = {1.0F, 2.0F};
    moments.observe({MatrixKind::kQkv, 0}, {good.data(), 1, 2, 2});
    moments.observe({MatrixKind::kDown, 0}, {good.data(), 1, 2, 2});
    EXPECT_FALSE(moments.find_not_finite());
    const std::vector<float> wrong = {1.0F, bad};
    moments.observe({MatrixKind::kDown, 0}, {wrong.data(), 1, 2, 2});
    const std::optional<MatrixPlace> found = moments.find_not_finite();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, MatrixKind::kDown);
  }
}

TEST(InputMomentsDeath, KnowNothingOfAMatrixThatWasNotUsed) {
  ThreadPool pool(1);
  const InputMoments moments(pool);
  EXPECT_DEATH((void)moments.at(kPlace), "was used during calibration");
}

}  // namespace
}  // namespace millrace
