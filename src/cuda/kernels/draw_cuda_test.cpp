#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/thread_orders.h"
#include "sampling/draw_test_data.h"

namespace millrace::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The ids that a device draws from rows of one length, one of each.
std::vector<int32_t> drawn_ids(const std::vector<DrawCase>& cases) {
  const size_t num_columns = cases[0].scores.size();
  std::vector<float> logits;
  std::vector<DrawRow> rows;
  // The first row last: a draw names its row.
  for (size_t i = 0; i < cases.size(); ++i) {
    const DrawCase& of_row = cases[cases.size() - 1 - i];
    logits.insert(logits.end(), of_row.scores.begin(), of_row.scores.end());
    rows.push_back(DrawRow::of(static_cast<int32_t>(cases.size() - 1 - i), cases[i].params));
  }
  const DeviceArray<float> device_logits(logits);
  const DeviceArray<DrawRow> device_rows(rows);
  const DeviceArray<DrawnRow> drawn(cases.size());
  draw_tokens(
      {},
      {.logits = device_logits.data(),
       .num_columns = num_columns,
       .rows = device_rows.data(),
       .num_draws = cases.size(),
       .drawn = drawn.data()}
  );
  std::vector<int32_t> ids;
  const std::vector<DrawnRow> results = drawn.read();
  for (size_t i = 0; i < results.size(); ++i) {
    ids.push_back(results[i].id);
    if (results[i].id < 0) continue;
    EXPECT_EQ(results[i].logit, cases[i].scores[static_cast<size_t>(results[i].id)]);
  }
  return ids;
}

int32_t host_id(const DrawCase& c) {
  return chosen_token(c.scores, c.params);
}

// What the host forbids is -infinity, which no model gives and a device refuses: the least float is
// as unlikely.
DrawCase from_a_model(DrawCase c) {
  for (float& score : c.scores) score = std::max(score, std::numeric_limits<float>::lowest());
  return c;
}

void expect_host_ids(const std::vector<DrawCase>& cases) {
  const std::vector<int32_t> ids = drawn_ids(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    ASSERT_EQ(ids[i], host_id(cases[i])) << cases[i].name();
  }
}

TEST(DrawOnDevice, DrawsTheHostsTokensForEveryMixOfParameters) {
  std::map<size_t, std::vector<DrawCase>> by_size;
  for (DrawCase& c : draw_cases(2000))
    by_size[c.scores.size()].push_back(from_a_model(std::move(c)));
  EXPECT_EQ(by_size.size(), 8);
  for (const auto& [size, cases] : by_size) expect_host_ids(cases);
}

TEST(DrawOnDevice, DoesNotDependOnTheOrderOfThreads) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const DrawCase c = from_a_model(draw_case(seed));
    const auto ids = same_in_every_thread_order([&] { return drawn_ids({c}); });
    ASSERT_EQ(ids[0], host_id(c)) << c.name();
  }
}

TEST(DrawOnDevice, DrawsFromVocabulariesOfModels) {
  for (const size_t size : {65536U, 65537U, 151936U}) {
    std::vector<DrawCase> cases;
    for (uint64_t i = 0; i < std::size(kDrawShapes); ++i) {
      DrawParams params = {.temperature = 1.0F, .unit = random_unit(3, i)};
      if (i % 2 == 1) params.top_k = 40;
      if (i % 3 == 1) params.top_p = 0.95F;
      cases.push_back(from_a_model({i, draw_scores(kDrawShapes[i], size, i), params}));
    }
    expect_host_ids(cases);
  }
}

TEST(DrawOnDevice, TakesTheLowestIdOfTheBestWithoutATemperature) {
  std::vector<DrawCase> cases;
  for (const DrawShape shape : kDrawShapes) {
    cases.push_back(from_a_model({1, draw_scores(shape, 5000, 8), {}}));
  }
  expect_host_ids(cases);
}

TEST(DrawOnDevice, FindsRowsThatHaveNoAnswer) {
  constexpr size_t kColumns = 3000;
  std::vector<DrawCase> cases;
  for (const float temperature : {0.0F, 1.0F}) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (const size_t place : {size_t{0}, size_t{1500}, kColumns - 1}) {
        cases.push_back(
            {place, draw_scores(DrawShape::kSpread, kColumns, place), {.temperature = temperature}}
        );
        cases.back().scores[place] = bad;
      }
    }
    cases.push_back({0, std::vector<float>(kColumns, -kInfinity), {.temperature = temperature}});
  }
  EXPECT_EQ(drawn_ids(cases), std::vector<int32_t>(cases.size(), DrawnRow::kNothing));
}

TEST(DrawOnDevice, FillsTokensOfEarlierDraws) {
  const DeviceArray<DrawnRow> drawn(std::vector<DrawnRow>{
      {7, 1.0F}, {DrawnRow::kNothing, 0.0F}, {9, 2.0F}});
  std::vector<TokenOfDraw> tokens = {{.token = 4, .draw = 2}, {.token = 0, .draw = 1}};
  std::vector<int32_t> expected = {0, -1, -1, -1, 9};
  for (int32_t i = 5; i < 305; ++i) {
    tokens.push_back({.token = i, .draw = 0});
    expected.push_back(7);
  }
  const DeviceArray<TokenOfDraw> device_tokens(tokens);
  const DeviceArray<int32_t> token_ids(std::vector<int32_t>(305, -1));
  fill_drawn_tokens(
      {},
      {.tokens = device_tokens.data(),
       .num_tokens = tokens.size(),
       .drawn = drawn.data(),
       .token_ids = token_ids.data()}
  );
  EXPECT_EQ(token_ids.read(), expected);
}

}  // namespace
}  // namespace millrace::cuda
