#include "server/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "checkpoint/test_files.h"

namespace millrace {
namespace {

constexpr std::string_view kTokenizer = R"({
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "</s>": 2}, "merges": []},
  "added_tokens": [{"id": 2, "content": "</s>", "special": true}]})";

Result<ModelText> text_of(const TestFolder& folder) {
  return load_model_text({.model = folder.path()});
}

TEST(ModelText, KnowsTheTokenizersOwnEndToken) {
  const TestFolder folder;
  folder.write("tokenizer.json", kTokenizer);
  const auto end_of = [&](std::string_view config) {
    folder.write("tokenizer_config.json", config);
    const Result<ModelText> text = text_of(folder);
    EXPECT_TRUE(text.ok()) << text.error().message;
    return text ? text->eos_token_id : std::nullopt;
  };
  EXPECT_EQ(end_of(R"({"eos_token": "</s>"})"), 2);
  EXPECT_EQ(end_of(R"({"eos_token": {"content": "</s>", "lstrip": false}})"), 2);
  EXPECT_EQ(end_of(R"({"eos_token": "<|im_end|>"})"), 3) << "the next id, as transformers has it";
  EXPECT_EQ(end_of(R"({"eos_token": null})"), std::nullopt);
  EXPECT_EQ(end_of("{}"), std::nullopt);
}

TEST(ModelText, RefusesATokenizerConfigThatIsNone) {
  const TestFolder folder;
  folder.write("tokenizer.json", kTokenizer);
  for (const std::string_view config : {R"([])", R"({"eos_token": 2})", R"({)"}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_FALSE(text_of(folder).ok()) << config;
  }
}

// It was read as tokenizer.json: "not valid JSON at byte 0".
TEST(ModelText, SaysThatAGgufFileHasNoVocabulary) {
  const TestFolder folder;
  testing_files::GgufWriter writer;
  writer.string("general.architecture", "llama")
      .uint32("llama.context_length", 64)
      .float32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  const std::string path = folder.write("model.gguf", writer.file());
  const Result<ModelText> text = load_model_text({.model = path});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(
      text.error().message,
      "'" + path + "' has no tokenizer.ggml.tokens; name another place with --tokenizer"
  );
}

}  // namespace
}  // namespace millrace
