// Greedy continuations of real models, beside those of Hugging Face transformers. The goldens come
// from tools/goldens/greedy_goldens.py.
#include <gtest/gtest.h>

#include "base/json.h"
#include "real_models.h"
#include "server/prompt.h"

namespace millrace {
namespace {

// Two engines whose sums differ in the last bits may choose differently where transformers' own
// best two logprobs are nearly equal; nowhere else.
constexpr double kGapMax = 0.05;

struct Golden {
  std::string prompt;
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> ids;
  std::vector<double> gaps;
};

std::vector<Golden> read_goldens(const std::string& name) {
  const Result<json::value> file =
      read_json_file(MILLRACE_SOURCE_DIR "/tests/golden/greedy/" + name);
  CHECK(file.ok(), file.error().message);
  std::vector<Golden> goldens;
  for (const json::value& entry : file->as_array()) {
    goldens.push_back({
        .prompt = json::value_to<std::string>(entry.at("prompt")),
        .prompt_ids = json::value_to<std::vector<TokenId>>(entry.at("prompt_token_ids")),
        .ids = json::value_to<std::vector<TokenId>>(entry.at("token_ids")),
        .gaps = json::value_to<std::vector<double>>(entry.at("gaps")),
    });
  }
  return goldens;
}

// The number of prompts that agree to the end; each disagreement must begin where the gap is small.
size_t compare(const LocalModel& model, const std::vector<Golden>& goldens, int32_t max_tokens) {
  std::vector<EngineRequest> requests;
  for (const Golden& golden : goldens) {
    EngineRequest request{.prompt = golden.prompt_ids};
    request.sampling.temperature = 0.0F;
    request.sampling.max_tokens = max_tokens;
    requests.push_back(std::move(request));
  }
  const auto results = generate_together(*model.engine, requests);
  size_t num_equal = 0;
  for (size_t i = 0; i < goldens.size(); ++i) {
    const std::vector<TokenId>& found = results[i][0].tokens;
    const std::vector<TokenId>& expected = goldens[i].ids;
    const auto at =
        std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first;
    if (at == expected.end()) {
      EXPECT_EQ(found.size(), expected.size()) << goldens[i].prompt;
      ++num_equal;
      continue;
    }
    const auto place = static_cast<size_t>(at - expected.begin());
    EXPECT_LE(goldens[i].gaps[place], kGapMax)
        << '"' << goldens[i].prompt << "\" differs at token " << place;
  }
  return num_equal;
}

TEST(Greedy, Stories260kContinuesAsTransformersDoes) {
  const std::optional<std::string> path = stories_path();
  if (!path) GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  const LocalModel model = load_model(*path, {});
  const std::vector<Golden> goldens = read_goldens("stories260k.json");
  for (const Golden& golden : goldens) {
    EXPECT_EQ(tokenize_text(model.text, golden.prompt), golden.prompt_ids);
  }
  EXPECT_GE(compare(model, goldens, 200), goldens.size() - 1);
}

TEST(Greedy, SmolLm2AnswersAsTransformersDoes) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const LocalModel model = load_model(*path, {.dtype = DType::kFloat32});
  const std::vector<Golden> goldens = read_goldens("smollm2.json");
  EXPECT_GE(compare(model, goldens, 60), goldens.size() - 2);
}

TEST(Greedy, SmolLm2AnswersAsTransformersDoesInItsDefaultType) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const LocalModel model = load_model(*path, {});
  const std::vector<Golden> goldens = read_goldens("smollm2.json");
  EXPECT_GE(compare(model, goldens, 60), goldens.size() - 2);
}

}  // namespace
}  // namespace millrace
