// Two hundred questions and instructions (prompts.txt), answered greedily in bfloat16: would int8
// have answered the same? Up to the first difference both have read the same tokens, so one pass
// over bfloat16's answer tells where int8 would have said another token for the first time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "base/file.h"
#include "batch_run.h"
#include "calibration_texts.h"
#include "divergence.h"
#include "generate_input.h"
#include "loaded_model.h"

namespace millrace {
namespace {

constexpr int32_t kAnswerTokens = 48;

// Where bfloat16's best two logprobs are closer than this, rounding of any kind may choose between
// them: the second is at least 0.78 times as likely as the first.
constexpr double kNearTieNats = 0.25;

// Of the prompts, one in so many is asked; MILLRACE_LONG_TESTS=1 asks all of them.
constexpr size_t kPromptsShare = 5;

std::vector<std::string> read_prompts() {
  const Result<std::string> text = read_file(MILLRACE_SOURCE_DIR "/tests/quality/prompts.txt");
  CHECK(text.ok(), text.error().message);
  std::vector<std::string> prompts;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    prompts.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return prompts;
}

std::vector<Answer> greedy_answers(LocalModel& model, const std::vector<std::string>& prompts) {
  std::vector<BatchItem> items;
  for (const std::string& prompt : prompts) {
    InputFlags flags;
    flags.fields = {{"temperature", 0.0}, {"max_tokens", kAnswerTokens}};
    const InputLine line{.object = {{"prompt", prompt}}, .is_chat_turn = true};
    items.push_back(prepare(line, model, flags, std::chrono::local_seconds{}));
    CHECK(!items.back().error, "a prompt that can be answered");
  }
  std::vector<Answer> answers;
  const auto keep = [&](size_t index, const ItemResult& result) {
    CHECK(!result.error, "an answer");
    const std::vector<TokenId>& ids = result.choices.front().token_ids;
    answers.push_back({.tokens = items[index].prompt, .num_answer_tokens = ids.size()});
    answers.back().tokens.insert(answers.back().tokens.end(), ids.begin(), ids.end());
    return true;
  };
  run_batch(model, items, {.on_result = keep});
  return answers;
}

// Where an answer would have become another one.
struct Difference {
  size_t answer = 0;
  size_t token = 0;          // of the answer, from 0
  double base_margin = 0.0;  // bfloat16's logprob of its choice less that of its second
};

struct Comparison {
  Divergence divergence;  // of all tokens of all answers
  std::vector<Difference> differences;
};

Comparison compare_answers(
    const AnswerLogits& base_logits, CpuModel& model, std::span<const Answer> answers
) {
  Comparison comparison;
  const auto vocab_size = static_cast<size_t>(model.vocab_size());
  for (size_t index = 0; index < answers.size(); ++index) {
    const Answer& answer = answers[index];
    const std::span<const float> expected = base_logits[index];
    const std::span<const float> found = forward(model, answer);
    bool is_equal = true;
    for (size_t row = 0; row < answer.num_answer_tokens; ++row) {
      const auto base_row = expected.subspan(row * vocab_size, vocab_size);
      const auto logits = found.subspan(row * vocab_size, vocab_size);
      const TokenId next = answer.token(row);
      EXPECT_EQ(largest(base_row), next) << "read at once, bfloat16 says something else";
      comparison.divergence.add(base_row, logits, next);
      if (is_equal && largest(logits) != next) {
        comparison.differences.push_back({index, row, margin(base_row)});
        is_equal = false;
      }
    }
  }
  std::ranges::sort(comparison.differences, {}, &Difference::base_margin);
  return comparison;
}

size_t num_below(const Comparison& comparison, double margin_max) {
  return static_cast<size_t>(std::ranges::count_if(comparison.differences, [&](const auto& found) {
    return found.base_margin < margin_max;
  }));
}

void print(const std::string& name, const Comparison& comparison, size_t num_answers) {
  const size_t num_different = comparison.differences.size();
  fmt::print("{}\n", comparison.divergence.row(name));
  fmt::print(
      "{}: {} of {} answers equal; of the others, bfloat16's margin is below 0.05: {}, 0.1: {}, "
      "0.25: {}, 0.5: {}; largest {:.3f}\n",
      name,
      num_answers - num_different,
      num_answers,
      num_below(comparison, 0.05),
      num_below(comparison, 0.1),
      num_below(comparison, 0.25),
      num_below(comparison, 0.5),
      num_different == 0 ? 0.0 : comparison.differences.back().base_margin
  );
}

std::vector<std::string> prompts_of_this_run(bool is_long) {
  std::vector<std::string> all = read_prompts();
  if (is_long) return all;
  std::vector<std::string> some;
  for (size_t i = 0; i < all.size(); i += kPromptsShare) some.push_back(std::move(all[i]));
  return some;
}

struct AnswerBound {
  double equal_min;             // of the answers
  double beyond_near_ties_max;  // of the answers
  double margin_max;            // where an answer differs
};

void expect_answers(
    const std::string& name, const Comparison& comparison, size_t num_all, const AnswerBound& bound
) {
  print(name, comparison, num_all);
  const auto num_answers = static_cast<double>(num_all);
  const size_t num_different = comparison.differences.size();
  const size_t num_beyond = num_different - num_below(comparison, kNearTieNats);
  EXPECT_GE(static_cast<double>(num_all - num_different), bound.equal_min * num_answers) << name;
  // Of few answers a share is less than one, and which one it meets is chance.
  const double num_beyond_max = std::ceil(bound.beyond_near_ties_max * num_answers);
  EXPECT_LE(static_cast<double>(num_beyond), num_beyond_max) << name;
  EXPECT_EQ(num_below(comparison, bound.margin_max), num_different) << name;
}

// A little below and above what was measured.
TEST(GreedyAnswers, SmolLm2InInt8AnswersAsInBFloat16ButForNearTies) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const bool is_long = std::getenv("MILLRACE_LONG_TESTS") != nullptr;
  const std::vector<std::string> prompts = prompts_of_this_run(is_long);
  const std::vector<Answer> answers = [&] {
    LocalModel model = load_speaking(*path);
    return greedy_answers(model, prompts);
  }();
  ASSERT_EQ(answers.size(), prompts.size());
  const AnswerLogits base = answer_logits(*load(*path, std::nullopt).model, answers);
  const auto compared = [&](const Loaded& other) {
    return compare_answers(base, *other.model, answers);
  };
  // What rounding to bfloat16 alone changes: nobody would say that these answers are worse.
  expect_answers(
      "float32", compared(load(*path, std::nullopt, DType::kFloat32)), answers.size(), {0.7, 0, 0.2}
  );
  expect_answers(
      "int8", compared(load(*path, QuantizedFormat::kInt8)), answers.size(), {0.3, 0.05, 0.6}
  );
  const Texts texts =
      calibration_texts(*path, is_long ? kCalibrationAnswerTokens : kFewAnswerTokens);
  expect_answers(
      "int8, calibrated",
      compared(load_calibrated(*path, QuantizedFormat::kInt8, texts)),
      answers.size(),
      {0.5, 0.01, 0.5}
  );
}

}  // namespace
}  // namespace millrace
