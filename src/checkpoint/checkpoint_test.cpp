#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"
#include "checkpoint/gguf.h"
#include "checkpoint/test_files.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using namespace testing_files;

std::string error_of(const std::string& path) {
  const Result<Checkpoint> checkpoint = open_checkpoint(path);
  return checkpoint ? "no error" : checkpoint.error().message;
}

std::string tiny_gguf() {
  const Result<std::string> bytes =
      read_file(MILLRACE_SOURCE_DIR "/tests/golden/checkpoint/tiny-llama.gguf");
  return bytes ? *bytes : "";
}

TEST(Checkpoint, OpensADirectoryOfHuggingFace) {
  const TestFolder directory;
  directory.write("config.json", R"({"model_type":"llama"})");
  directory.write("generation_config.json", R"({"temperature":0.5})");
  directory.write("tokenizer_config.json", R"({"chat_template":"{{ 1 }}"})");
  directory.write("model.safetensors", safetensors_of({"a", "b"}));
  const Result<Checkpoint> checkpoint = open_checkpoint(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->config.at("model_type"), "llama");
  EXPECT_EQ(checkpoint->generation_config.at("temperature"), 0.5);
  EXPECT_EQ(checkpoint->weights->tensors().size(), 2U);
  EXPECT_EQ(checkpoint->chat_template, "{{ 1 }}");
  EXPECT_FALSE(checkpoint->vocabulary);
  EXPECT_EQ(checkpoint->path, directory.path());
}

TEST(Checkpoint, TakesTheVocabularyOfAGgufFileBesideOtherWeights) {
  const std::string gguf = tiny_gguf();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(gguf));
  ASSERT_TRUE(file) << file.error().message;
  const std::string vocabulary = file->without_tensors();
  EXPECT_LT(vocabulary.size(), gguf.size());
  const Result<GgufFile> again = GgufFile::parse(as_bytes(vocabulary));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->tensors().empty());

  const TestFolder directory;
  directory.write("config.json", R"({"model_type":"llama"})");
  directory.write("vocabulary.gguf", vocabulary);
  directory.write("model.safetensors", safetensors_of({"a"}));
  const Result<Checkpoint> checkpoint = open_checkpoint(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_TRUE(checkpoint->vocabulary);
  EXPECT_EQ(checkpoint->vocabulary->tokens.size(), 40U);
  EXPECT_EQ(checkpoint->weights->tensors().size(), 1U);

  directory.write("vocabulary.gguf", vocabulary.substr(0, 100));
  EXPECT_THAT(error_of(directory.path()), HasSubstr("vocabulary.gguf: "));
}

TEST(Checkpoint, NeedsNoWeightsWhenNoneAreWanted) {
  const TestFolder directory;
  directory.write("config.json", R"({"model_type":"llama"})");
  const Result<Checkpoint> checkpoint = open_checkpoint(directory.path(), {.with_weights = false});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->weights, nullptr);
  EXPECT_TRUE(checkpoint->generation_config.empty());
  EXPECT_THAT(error_of(directory.path()), HasSubstr("holds no weights"));
}

TEST(Checkpoint, OpensAGgufFileAndADirectoryThatHoldsOne) {
  const TestFolder directory;
  directory.write("model.gguf", tiny_gguf());
  for (const std::string& path : {directory.path(), directory.path("model.gguf")}) {
    const Result<Checkpoint> checkpoint = open_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->config.at("model_type"), "llama");
    EXPECT_NE(checkpoint->weights->find("model.norm.weight"), nullptr);
    EXPECT_EQ(checkpoint->vocabulary->tokens.size(), 40U);
    EXPECT_EQ(checkpoint->chat_template, "{{ messages[0]['content'] }}");
    EXPECT_EQ(checkpoint->path, path);
  }
}

TEST(Checkpoint, SaysWhatIsMissing) {
  EXPECT_THAT(error_of("/no/such/model"), HasSubstr("no model at '/no/such/model'"));
  const TestFolder directory;
  EXPECT_THAT(error_of(directory.path()), HasSubstr("found no config.json and 0 .gguf files"));
  directory.write("a.gguf", "x");
  directory.write("b.gguf", "x");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("found no config.json and 2 .gguf files"));
  EXPECT_THAT(error_of(directory.path("a.gguf")), HasSubstr("the file ends within the magic"));
  directory.write("readme.txt", "x");
  EXPECT_THAT(error_of(directory.path("readme.txt")), HasSubstr("is no model"));
}

TEST(Checkpoint, SaysWhichFileIsWrong) {
  const TestFolder directory;
  directory.write("config.json", "{");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("config.json: not valid JSON"));
  directory.write("config.json", "[]");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("config.json: expected a JSON object"));
  directory.write("config.json", "{}");
  directory.write("generation_config.json", "1");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("generation_config.json: expected"));
  directory.write("generation_config.json", "{}");
  directory.write("tokenizer_config.json", R"({"chat_template":7})");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("must be a string or a list"));
}

TEST(Checkpoint, FindsTheChatTemplateWhereverItStands) {
  const TestFolder directory;
  const auto found = [&] {
    const Result<Checkpoint> checkpoint =
        open_checkpoint(directory.path(), {.with_weights = false});
    return checkpoint ? checkpoint->chat_template : std::optional<std::string>("an error");
  };
  directory.write("config.json", "{}");
  EXPECT_EQ(found(), std::nullopt);
  directory.write("tokenizer_config.json", R"({"chat_template":null})");
  EXPECT_EQ(found(), std::nullopt);
  directory.write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})"
  );
  EXPECT_EQ(found(), "D");
  directory.write("chat_template.jinja", "J");
  EXPECT_EQ(found(), "J");
}

TEST(Checkpoint, ReadsNoFileOutsideOfTheDirectory) {
  const TestFolder outside;
  outside.write("secret.json", "{}");
  const TestFolder directory;
  std::filesystem::create_symlink(outside.path("secret.json"), directory.path("config.json"));
  EXPECT_THAT(error_of(directory.path()), HasSubstr("a link that leaves the model directory"));
}

}  // namespace
}  // namespace millrace
