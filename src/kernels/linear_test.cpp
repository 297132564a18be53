#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/math.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

struct Shape {
  size_t num_tokens;
  size_t num_inputs;
  size_t num_outputs;
};

// Odd and even inputs, every tile height with its leftovers, part panels and many panels.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = [] {
    std::vector<Shape> shapes;
    for (const size_t num_tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 32}) {
      shapes.push_back({num_tokens, 33, 16 * 15 + 5});
      shapes.push_back({num_tokens, 8, 16});
    }
    shapes.push_back({1, 1, 1});
    shapes.push_back({9, 64, 17});
    shapes.push_back({3, 130, 16 * 23});
    // More blocks than the bfloat16 kernel asks for ahead.
    for (const size_t num_tokens : {1, 2, 4, 8, 24, 25}) {
      shapes.push_back({num_tokens, 203, 16 * 13});
    }
    // Several passes and tiles of AMX, the last ones not whole; more tokens than a block has.
    for (const size_t num_tokens : {5, 17, 37}) shapes.push_back({num_tokens, 515, 16 * 7});
    shapes.push_back({16, 512, 16 * 6});
    shapes.push_back({273, 34, 32});
    return shapes;
  }();
  return all;
}

constexpr BFloat16Panels kBothPanels[] = {BFloat16Panels::kPacked, BFloat16Panels::kWhole};

// Whole ones are for AVX2 alone.
bool can_read(Isa isa, BFloat16Panels panels) {
  return panels == BFloat16Panels::kPacked || isa <= Isa::kAvx2;
}

struct Problem {
  Shape shape;
  LinearEpilogue epilogue;
  PackedMatrix weights;
  std::vector<float> x;
  std::vector<float> bias;  // empty or one for each packed row
  std::vector<float> out;   // as it is before
};

Problem make_problem(
    const Shape& shape,
    DType dtype,
    LinearEpilogue epilogue,
    bool with_bias,
    BFloat16Panels panels = best_bfloat16_panels()
) {
  const size_t num_rows = epilogue == LinearEpilogue::kSiluMul
                              ? 2 * round_up<size_t>(shape.num_outputs, 16)
                              : shape.num_outputs;
  const std::vector<float> rows = random_floats(num_rows * shape.num_inputs, 11);
  Problem problem = {
      .shape = shape,
      .epilogue = epilogue,
      .weights = packed(dtype, rows, shape.num_inputs, panels),
      .x = random_floats(shape.num_tokens * shape.num_inputs, 12),
      .bias = {},
      .out = random_floats(shape.num_tokens * shape.num_outputs, 13),
  };
  if (with_bias) problem.bias = random_floats(problem.weights.num_panels() * 16, 14);
  return problem;
}

std::vector<float> solve(const Executor& executor, const Problem& problem) {
  std::vector<float> x = problem.x;
  std::vector<float> out = problem.out;
  Buffer scratch = *Buffer::allocate(linear_scratch_bytes(
      problem.weights.dtype(),
      executor.pool.num_threads(),
      problem.shape.num_tokens,
      problem.shape.num_inputs
  ));
  linear(
      executor,
      {.x = rows_of(x, problem.shape.num_inputs),
       .weights = problem.weights,
       .bias = problem.bias,
       .out = rows_of(out, problem.shape.num_outputs),
       .epilogue = problem.epilogue,
       .scratch = scratch.bytes()}
  );
  return out;
}

double exact_sum(const Problem& problem, size_t token, size_t row) {
  std::vector<float> weights(problem.shape.num_inputs);
  problem.weights.copy_row(row, weights);
  double sum = problem.bias.empty() ? 0.0 : static_cast<double>(problem.bias[row]);
  for (size_t k = 0; k < weights.size(); ++k) {
    const float input = problem.x[token * problem.shape.num_inputs + k];
    const bool rounds = problem.weights.dtype() == DType::kBFloat16;
    sum += static_cast<double>(weights[k]) *
           static_cast<double>(rounds ? to_float(to_bfloat16(input)) : input);
  }
  return sum;
}

double exact_output(const Problem& problem, size_t token, size_t column) {
  switch (problem.epilogue) {
    case LinearEpilogue::kStore:
      return exact_sum(problem, token, column);
    case LinearEpilogue::kAddToOut:
      return exact_sum(problem, token, column) +
             static_cast<double>(problem.out[token * problem.shape.num_outputs + column]);
    case LinearEpilogue::kSiluMul: {
      const size_t row = column / 16 * 32 + column % 16;
      const double gate = exact_sum(problem, token, row);
      return gate / (1.0 + std::exp(-gate)) * exact_sum(problem, token, row + 16);
    }
  }
  return 0.0;
}

TEST(Linear, IsTheMatrixProductInDoublePrecision) {
  ThreadPool pool(1);
  for (const LinearEpilogue epilogue :
       {LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul}) {
    for (const DType dtype : kDTypes) {
      const Shape shape = {3, 33, 37};
      const Problem problem = make_problem(shape, dtype, epilogue, true);
      const std::vector<float> out = solve({Isa::kReference, pool}, problem);
      for (size_t i = 0; i < out.size(); ++i) {
        const double exact = exact_output(problem, i / 37, i % 37);
        EXPECT_NEAR(out[i], exact, 1e-5) << name_of(dtype) << " element " << i;
      }
    }
  }
}

// Of one problem and its outputs by each reference.
void expect_bits_on_every_isa(
    const Problem& problem, std::span<const float> by_pairs, std::span<const float> by_tiles
) {
  ThreadPool one(1);
  ThreadPool three(3);
  const Shape& shape = problem.shape;
  for (const Isa isa : supported_isas()) {
    if (is_reference(isa) || !can_read(isa, problem.weights.bfloat16_panels())) continue;
    const auto& expected = reference_of(isa) == Isa::kReference ? by_pairs : by_tiles;
    for (const size_t hint_bytes : {0, 4096}) {
      ASSERT_EQ(bits_of(solve({isa, one, hint_bytes}, problem)), bits_of(expected))
          << name_of(isa) << ' ' << name_of(problem.weights.dtype()) << ' ' << shape.num_tokens
          << " x " << shape.num_inputs << " x " << shape.num_outputs << ", hints " << hint_bytes;
    }
    ASSERT_EQ(bits_of(solve({isa, three}, problem)), bits_of(expected)) << name_of(isa);
  }
}

TEST(Linear, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  ThreadPool pool(1);
  for (const LinearEpilogue epilogue :
       {LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul}) {
    for (const DType dtype : kDTypes) {
      const bool is_bfloat16 = dtype == DType::kBFloat16;
      for (const Shape& shape : shapes()) {
        const bool with_bias = shape.num_tokens % 2 == 1;
        const auto problem_with = [&](BFloat16Panels panels) {
          return make_problem(shape, dtype, epilogue, with_bias, panels);
        };
        const Problem problem = problem_with(BFloat16Panels::kPacked);
        const std::vector<float> by_pairs = solve({Isa::kReference, pool}, problem);
        const std::vector<float> by_tiles =
            is_bfloat16 ? solve({Isa::kAmxReference, pool}, problem) : by_pairs;
        expect_bits_on_every_isa(problem, by_pairs, by_tiles);
        if (!is_bfloat16) continue;
        const Problem whole = problem_with(BFloat16Panels::kWhole);
        EXPECT_EQ(bits_of(solve({Isa::kReference, pool}, whole)), bits_of(by_pairs));
        expect_bits_on_every_isa(whole, by_pairs, by_tiles);
      }
    }
  }
}

TEST(Linear, GivesATokenTheSameBitsAloneAndAmongOthers) {
  ThreadPool pool(2);
  for (const Isa isa : supported_isas()) {
    const Problem all =
        make_problem({13, 50, 100}, DType::kBFloat16, LinearEpilogue::kStore, false);
    const std::vector<float> together = solve({isa, pool}, all);
    for (size_t token = 0; token < 13; ++token) {
      std::vector<float> x(
          all.x.begin() + static_cast<ptrdiff_t>(token * 50),
          all.x.begin() + static_cast<ptrdiff_t>((token + 1) * 50)
      );
      Problem one = make_problem({1, 50, 100}, DType::kBFloat16, LinearEpilogue::kStore, false);
      one.x = x;
      const std::vector<float> alone = solve({isa, pool}, one);
      EXPECT_EQ(bits_of(alone), bits_of(std::span(together).subspan(token * 100, 100)));
    }
  }
}

std::vector<float> solve_alone(const Executor& executor, const Problem& all, size_t token) {
  const auto row_of = [token](const std::vector<float>& rows, size_t size) {
    const auto begin = rows.begin() + static_cast<ptrdiff_t>(token * size);
    return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(size));
  };
  Shape shape = all.shape;
  shape.num_tokens = 1;
  Problem one = make_problem(shape, DType::kBFloat16, all.epilogue, false);
  one.x = row_of(all.x, shape.num_inputs);
  one.out = row_of(all.out, shape.num_outputs);
  return solve(executor, one);
}

// More tokens than AMX takes at once; and more inputs, in three chunks, for more panels than keep
// their sums meanwhile.
TEST(Linear, TakesManyTokensInBlocksAndManyInputsInChunks) {
  ThreadPool pool(1);
  for (const auto& [shape, epilogue] :
       {std::pair(Shape{540, 40, 48}, LinearEpilogue::kAddToOut),
        std::pair(Shape{273, 5900, 16 * 18}, LinearEpilogue::kSiluMul)}) {
    const Problem all = make_problem(shape, DType::kBFloat16, epilogue, false);
    for (const Isa isa : supported_isas()) {
      if (is_reference(isa)) continue;
      const std::vector<float> together = solve({isa, pool}, all);
      for (const size_t token : {0, 15, 16, 250, 271, 272}) {
        const std::vector<float> alone = solve_alone({reference_of(isa), pool}, all, token);
        const size_t begin = token * shape.num_outputs;
        EXPECT_EQ(bits_of(alone), bits_of(std::span(together).subspan(begin, alone.size())))
            << name_of(isa) << ", token " << token;
      }
    }
  }
}

// The outputs of a first matrix as floats, or in the form that suits the next.
std::vector<float> solve_two(
    const Executor& executor, const Problem& first, const Problem& next, RowsForm form
) {
  std::vector<float> x = first.x;
  std::vector<float> between(first.out.size(), 7.0F);
  std::vector<float> out = next.out;
  Buffer scratch = *Buffer::allocate(linear_scratch_bytes(
      DType::kBFloat16,
      executor.pool.num_threads(),
      first.shape.num_tokens,
      std::max(first.shape.num_inputs, next.shape.num_inputs)
  ));
  const Rows between_rows = rows_of(between, next.shape.num_inputs);
  linear(
      executor,
      {.x = rows_of(x, first.shape.num_inputs),
       .weights = first.weights,
       .bias = first.bias,
       .out = between_rows,
       .epilogue = first.epilogue,
       .out_form = form,
       .scratch = scratch.bytes()}
  );
  linear(
      executor,
      {.x = between_rows,
       .weights = next.weights,
       .bias = {},
       .out = rows_of(out, next.shape.num_outputs),
       .epilogue = next.epilogue,
       .x_form = form,
       .scratch = scratch.bytes()}
  );
  return out;
}

TEST(Linear, PassesItsOutputsOnInTheFormThatSuitsTheNextMatrix) {
  ThreadPool pool(2);
  size_t num_in_tiles = 0;
  for (const size_t num_tokens : {1, 5, 16, 17, 40}) {
    for (const size_t num_between : {16, 37, 48, 64, 515}) {
      const Problem first = make_problem(
          {num_tokens, 33, num_between}, DType::kBFloat16, LinearEpilogue::kSiluMul, true
      );
      const Problem next = make_problem(
          {num_tokens, num_between, 20}, DType::kBFloat16, LinearEpilogue::kAddToOut, false
      );
      for (const Isa isa : supported_isas()) {
        std::vector<float> between(num_tokens * num_between);
        const RowsForm form =
            form_between(isa, DType::kBFloat16, DType::kBFloat16, rows_of(between, num_between));
        if (form == RowsForm::kFloats) continue;
        ++num_in_tiles;
        EXPECT_EQ(
            bits_of(solve_two({isa, pool}, first, next, form)),
            bits_of(solve_two({isa, pool}, first, next, RowsForm::kFloats))
        ) << name_of(isa)
          << ' ' << num_tokens << " x " << num_between;
      }
    }
  }
  // Tiles are of AMX, and take no more room than the floats would.
  const auto isas = supported_isas();
  const bool has_tiles = std::ranges::find(isas, Isa::kAmx) != isas.end();
  EXPECT_EQ(num_in_tiles, has_tiles ? 20U : 0U);
}

// More exponents than a packed panel's table holds: a third of the first weights are exceptions,
// nearly as many as the matrix has room for.
TEST(Linear, AddsWeightsOfAnyMagnitudeOnEveryInstructionSet) {
  ThreadPool pool(2);
  constexpr size_t kInputs = 2046;
  for (const size_t num_tokens : {1, 5, 12, 13, 20}) {
    Problem problem =
        make_problem({num_tokens, kInputs, 40}, DType::kBFloat16, LinearEpilogue::kStore, false);
    std::vector<float> rows = random_floats(40 * kInputs, 21);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i % kInputs < 40) rows[i] = std::ldexp(rows[i], static_cast<int>(i * 7 % 24) - 20);
    }
    for (const BFloat16Panels panels : kBothPanels) {
      problem.weights = packed(DType::kBFloat16, rows, kInputs, panels);
      EXPECT_GT(problem.weights.exceptions()[0].size, 100U);
      for (const Isa isa : supported_isas()) {
        if (!can_read(isa, panels)) continue;
        const std::vector<float> expected = solve({reference_of(isa), pool}, problem);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(expected[i], exact_output(problem, i / 40, i % 40), 1e-3);
        }
        EXPECT_EQ(bits_of(solve({isa, pool}, problem)), bits_of(expected)) << name_of(isa);
      }
    }
  }
}

// What decisions 12 and 20 rest on: three million pairs, of magnitudes whose roundings show, added
// as vdpbf16ps and two fused multiply-adds do, and as AMX does. Each sum is one of 32 pairs.
TEST(Linear, AddsPairsOfBFloat16InTheOrderOfEachReference) {
  ThreadPool pool(1);
  const Shape shape = {96, 64, 1024};
  Problem problem = make_problem(shape, DType::kBFloat16, LinearEpilogue::kStore, false);
  std::vector<float> rows = random_floats(shape.num_outputs * shape.num_inputs, 31);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = std::ldexp(rows[i], -static_cast<int>(i * 7 % 9));
  }
  for (size_t i = 0; i < problem.x.size(); ++i) {
    problem.x[i] = std::ldexp(problem.x[i], static_cast<int>(i * 11 % 41) - 20);
  }
  problem.weights = packed(DType::kBFloat16, rows, shape.num_inputs);
  const std::vector<float> by_pairs = solve({Isa::kReference, pool}, problem);
  const std::vector<float> by_tiles = solve({Isa::kAmxReference, pool}, problem);
  for (const Isa isa : supported_isas()) {
    const bool is_by_pairs = reference_of(isa) == Isa::kReference;
    EXPECT_EQ(bits_of(solve({isa, pool}, problem)), bits_of(is_by_pairs ? by_pairs : by_tiles))
        << name_of(isa);
  }

  // Another order would have been noticed: it changes a good part of the sums.
  const auto num_different = [&](std::span<const float> others) {
    size_t count = 0;
    for (size_t i = 0; i < others.size(); ++i) count += others[i] != by_pairs[i] ? 1 : 0;
    return count;
  };
  EXPECT_GT(num_different(by_tiles), by_pairs.size() / 10);
  for (size_t i = 0; i < rows.size(); i += 2) std::swap(rows[i], rows[i + 1]);
  for (size_t i = 0; i < problem.x.size(); i += 2) std::swap(problem.x[i], problem.x[i + 1]);
  problem.weights = packed(DType::kBFloat16, rows, shape.num_inputs);
  EXPECT_GT(num_different(solve({Isa::kReference, pool}, problem)), by_pairs.size() / 10);
}

TEST(Linear, TakesDenormalsOfBFloat16AsZeroOnEveryInstructionSet) {
  ThreadPool pool(1);
  for (const BFloat16Panels panels : kBothPanels) {
    Problem problem =
        make_problem({2, 8, 16}, DType::kBFloat16, LinearEpilogue::kStore, false, panels);
    for (float& input : problem.x) input *= 0x1p-126F;  // denormal themselves or in their products
    for (const Isa isa : supported_isas()) {
      if (!can_read(isa, panels)) continue;
      EXPECT_EQ(
          bits_of(solve({isa, pool}, problem)), bits_of(solve({reference_of(isa), pool}, problem))
      ) << name_of(isa);
    }
  }
}

TEST(Linear, ReadsAndWritesColumnsOfWiderRows) {
  ThreadPool pool(1);
  const Problem problem = make_problem({5, 20, 30}, DType::kFloat32, LinearEpilogue::kStore, false);
  const std::vector<float> expected = solve({Isa::kReference, pool}, problem);
  for (const Isa isa : supported_isas()) {
    std::vector<float> wide_x(5 * 64, 7.0F);
    std::vector<float> wide_out(5 * 64, 7.0F);
    for (size_t i = 0; i < problem.x.size(); ++i) wide_x[i / 20 * 64 + 8 + i % 20] = problem.x[i];
    linear(
        {isa, pool},
        {.x = rows_of(wide_x, 64).columns(8, 20),
         .weights = problem.weights,
         .bias = {},
         .out = rows_of(wide_out, 64).columns(3, 30)}
    );
    for (size_t i = 0; i < wide_out.size(); ++i) {
      const size_t column = i % 64;
      const bool written = column >= 3 && column < 33;
      EXPECT_EQ(wide_out[i], written ? expected[i / 64 * 30 + column - 3] : 7.0F) << i;
    }
  }
}

TEST(Linear, DoesNothingForNoTokens) {
  ThreadPool pool(1);
  const Problem problem = make_problem({0, 20, 30}, DType::kFloat32, LinearEpilogue::kStore, false);
  EXPECT_TRUE(solve({best_isa(), pool}, problem).empty());
}

TEST(LinearDeathTest, RefusesTilesWhereFloatsAreMultiplied) {
  ThreadPool pool(1);
  const Problem first =
      make_problem({2, 20, 64}, DType::kBFloat16, LinearEpilogue::kSiluMul, false);
  const Problem next = make_problem({2, 64, 20}, DType::kBFloat16, LinearEpilogue::kStore, false);
  EXPECT_DEATH(
      solve_two({Isa::kReference, pool}, first, next, RowsForm::kTiles), "may stand in tiles"
  );
}

TEST(LinearDeathTest, RefusesWholePanelsWhereTheKernelsReadPackedOnes) {
  if (best_isa() <= Isa::kAvx2) GTEST_SKIP() << "AVX2 reads both";
  ThreadPool pool(1);
  const Problem problem = make_problem(
      {2, 20, 30}, DType::kBFloat16, LinearEpilogue::kStore, false, BFloat16Panels::kWhole
  );
  EXPECT_DEATH(solve({best_isa(), pool}, problem), "whole panels are for AVX2 alone");
}

TEST(LinearDeathTest, RefusesShapesThatDoNotFit) {
  ThreadPool pool(1);
  Problem problem = make_problem({2, 20, 30}, DType::kFloat32, LinearEpilogue::kStore, false);
  problem.shape.num_inputs = 10;
  EXPECT_DEATH(solve({best_isa(), pool}, problem), "x has the weights' inputs");
}

}  // namespace
}  // namespace millrace
