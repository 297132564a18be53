// The tokenizer against the answers of Hugging Face `tokenizers`: see
// tools/goldens/tokenizer_goldens.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// The lines of a golden file, each a JSON object.
std::vector<json::value> read_lines(const std::string& name) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/tests/golden/" + name);
  EXPECT_TRUE(file) << name;
  std::vector<json::value> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<TokenId> to_ids(const json::value& array) {
  return json::value_to<std::vector<TokenId>>(array);
}

std::string detokenize_piecewise(
    const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special_tokens
) {
  IncrementalDetokenizer detokenizer(tokenizer, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) {
    const std::string_view piece = detokenizer.push(id);
    EXPECT_TRUE(is_valid_utf8(piece));
    text += piece;
  }
  text += detokenizer.finish();
  return text;
}

// Checks `tokenizer` on every text. `decoded[i]` null stands for the text itself.
void check(
    const Tokenizer& tokenizer,
    const json::array& texts,
    const json::array& ids,
    const json::array& decoded,
    const json::array& skipped
) {
  ASSERT_EQ(ids.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text(texts[i].as_string());
    const std::vector<TokenId> expected = to_ids(ids[i]);
    EXPECT_EQ(tokenizer.encode(text), expected) << "text " << i << ": " << texts[i];
    EXPECT_EQ(tokenizer.encode_at_most(expected.size(), text), expected) << "text " << i;
    if (!expected.empty()) {
      EXPECT_EQ(tokenizer.encode_at_most(expected.size() - 1, text), std::nullopt) << "text " << i;
    }
    for (const bool skip : {false, true}) {
      const json::value& out = skip ? skipped[i] : decoded[i];
      const std::string want = out.is_null() ? text : std::string(out.as_string());
      EXPECT_EQ(tokenizer.decode(expected, skip), want) << "text " << i << " skip " << skip;
      EXPECT_EQ(detokenize_piecewise(tokenizer, expected, skip), want) << "text " << i;
    }
  }
}

TEST(TokenizerGolden, MatchesTheReferenceOnPublishedModels) {
  const std::string root = std::string(MILLRACE_SOURCE_DIR) + "/../shared/data/";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs the folder " << root;
  const std::vector<json::value> lines = read_lines("tokenizer_models.jsonl");
  ASSERT_EQ(lines.size(), 6U);
  const json::array& texts = lines[0].at("texts").as_array();
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string model(lines[i].at("model").as_string());
    SCOPED_TRACE(model);
    const Result<Tokenizer> tokenizer = Tokenizer::from_file(root + model + "/tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    check(
        *tokenizer,
        texts,
        lines[i].at("ids").as_array(),
        lines[i].at("texts").as_array(),
        lines[i].at("skipped").as_array()
    );
  }
}

TEST(TokenizerGolden, MatchesTheReferenceInEveryComponent) {
  const std::vector<json::value> lines = read_lines("tokenizer_components.jsonl");
  ASSERT_GT(lines.size(), 80U);
  const json::array& texts = lines[0].at("texts").as_array();
  for (size_t i = 1; i < lines.size(); ++i) {
    SCOPED_TRACE(std::string(lines[i].at("name").as_string()));
    json::value document = lines[i].at("tokenizer");
    json::value& vocabulary = document.at("model").at("vocab");
    if (vocabulary.is_int64()) {
      vocabulary = lines[0].at("vocabularies").at(static_cast<size_t>(vocabulary.as_int64()));
    }
    const Result<Tokenizer> tokenizer = Tokenizer::from_json(json::serialize(document));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const json::array& decoded = lines[i].at("decoded").as_array();
    const json::value& skipped = lines[i].at("skipped");
    check(
        *tokenizer,
        texts,
        lines[i].at("ids").as_array(),
        decoded,
        skipped.is_null() ? decoded : skipped.as_array()
    );
  }
}

}  // namespace
}  // namespace millrace
