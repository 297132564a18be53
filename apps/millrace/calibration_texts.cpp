#include "calibration_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "batch_run.h"
#include "generate_input.h"
#include "server/prompt.h"

namespace millrace {
namespace {

// Prose, facts, instructions, code, mathematics, formats and languages: what people ask.
constexpr std::array kQuestions = {
    "How do bees make honey?",
    "Write a Python function that reverses a linked list.",
    "Summarize the causes of the First World War.",
    "Wie funktioniert ein Kühlschrank?",
    "Solve 3x + 7 = 22 step by step.",
    "Write a polite e-mail asking for a day off.",
    "What are the side effects of too much coffee?",
    "Explique-moi la Révolution française en trois phrases.",
    "Give an example of a SQL query with a join.",
    "Compare cats and dogs as pets.",
    "Tell me about the history of the bicycle.",
    "¿Cuáles son los planetas del sistema solar?",
    "Write JSON describing a book with title, author and year.",
    "Why do leaves change color in October?",
    "Continue this story: The door opened slowly and",
    "What should I pack for a week in Norway?",
    "How does a bank decide on interest rates?",
    "List five exercises for the back.",
    "Explain recursion with an example in C.",
    "What is the difference between weather and climate?",
    "Rewrite in plain words: The aforementioned party shall remit payment forthwith.",
    "Who painted the Mona Lisa, and when?",
    "Calculate the area of a circle of radius 4.",
    "Describe how vaccines work.",
    "请用三句话介绍长城。",
    "Write a shell command that finds all files larger than 10 MB.",
    "What is the meaning of the word 'serendipity'?",
    "Plan a birthday party for a child of six.",
    "Traduis en anglais : Le chat dort sur la chaise.",
    "Prove that the square root of 2 is irrational.",
    "Write a short poem about winter.",
    "What happened in the year 1969?",
    "How can I repair a flat bicycle tire?",
    "日本の首都について教えてください。",
    "Explain the offside rule in football.",
    "Write an HTML page with a heading and a table of two rows.",
    "What are prime numbers, and which are below 30?",
    "Give me three arguments for and against nuclear power.",
    "Как приготовить борщ?",
    "Describe the plot of Hamlet in five sentences.",
};

// For templates that state the date: always the same one.
constexpr std::chrono::local_seconds kToday{std::chrono::local_days(
    std::chrono::year_month_day(std::chrono::year(2026), std::chrono::January, std::chrono::day(1))
)};

}  // namespace

Result<std::vector<std::vector<TokenId>>> own_answers(
    LocalModel& model,
    int32_t num_answer_tokens,
    const std::function<void(double fraction)>& on_progress
) {
  std::vector<BatchItem> items;
  for (const std::string_view question : kQuestions) {
    InputFlags flags;
    flags.fields = {
        {"temperature", 1.0},
        {"top_p", 1.0},
        {"top_k", -1},
        {"min_p", 0.0},
        {"repetition_penalty", 1.0},
        {"max_tokens", num_answer_tokens},
        {"ignore_eos", true},
        {"seed", static_cast<int64_t>(items.size())}};
    const InputLine line{.object = {{"prompt", question}}, .is_chat_turn = true};
    items.push_back(prepare(line, model, flags, kToday));
    if (items.back().error) return *items.back().error;
  }
  std::vector<std::vector<TokenId>> texts;
  std::optional<Error> error;
  run_batch(model, items, {.on_result = [&](size_t index, const ItemResult& result) {
              error = result.error;
              if (error) return false;
              std::vector<TokenId> text = items[index].prompt;
              const std::vector<TokenId>& answer = result.choices.front().token_ids;
              text.insert(text.end(), answer.begin(), answer.end());
              texts.push_back(std::move(text));
              if (on_progress) {
                on_progress(static_cast<double>(texts.size()) / static_cast<double>(items.size()));
              }
              return true;
            }});
  if (error) return *error;
  return texts;
}

Result<std::vector<std::vector<TokenId>>> paragraphs_of(
    const LocalModel& model, const std::string& path
) {
  const Result<std::string> content = read_file(path);
  if (!content) return content.error();
  std::vector<std::vector<TokenId>> texts;
  std::string_view rest = *content;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find("\n\n"), rest.size());
    const std::string_view paragraph = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    if (paragraph.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
    texts.push_back(tokenize_text(model.text, paragraph));
  }
  if (texts.empty()) return invalid_argument(fmt::format("there is no text in '{}'", path), path);
  return texts;
}

}  // namespace millrace
