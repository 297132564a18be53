#include "server/local_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "checkpoint/test_files.h"
#include "model/gptq_test_file.h"

namespace millrace {
namespace {

constexpr std::string_view kConfig = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
  "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 64, "torch_dtype": "bfloat16",
  "max_position_embeddings": 512)";

// Two threads, 8 sequences.
LocalModelOptions dummy_options(const std::string& model) {
  LocalModelOptions options;
  options.text.model = model;
  options.load_format = LoadFormat::kDummy;
  options.available_bytes = int64_t{1} << 30;
  options.num_threads = 2;
  options.engine.max_num_seqs = 8;
  options.engine.max_logit_rows = 8;
  return options;
}

int32_t step_tokens(const LocalModelOptions& options) {
  const Result<LocalRunner> runner = load_local_runner(options);
  EXPECT_TRUE(runner.ok()) << runner.error().message;
  return runner ? runner->max_num_batched_tokens : 0;
}

TEST(LocalModel, ComputesAsManyTokensAStepAsSuitHowTheModelRuns) {
  const TestFolder folder;
  folder.write("config.json", std::string(kConfig) + "}");
  LocalModelOptions options = dummy_options(folder.path());
  options.quantization = QuantizedFormat::kInt4;
  options.isa = Isa::kReference;
  EXPECT_EQ(step_tokens(options), 128);
  options.isa = Isa::kAmxReference;  // tiles of bytes are faster in long steps
  EXPECT_EQ(step_tokens(options), 256);
  options.quantization = QuantizedFormat::kInt8;
  EXPECT_EQ(step_tokens(options), 128);
  options.max_num_batched_tokens = 40;
  EXPECT_EQ(step_tokens(options), 40);
}

TEST(LocalModel, ChoosesTheStepOfADummyModelByTheFormatThatItIsStoredIn) {
  const TestFolder folder;
  folder.write(
      "config.json",
      std::string(kConfig) +
          R"(, "quantization_config": {"quant_method": "millrace", "format": "int4", "version": 3}})"
  );
  LocalModelOptions options = dummy_options(folder.path());
  options.isa = Isa::kAmxReference;
  EXPECT_EQ(step_tokens(options), 256);
}

// It was never compared with the memory there is, and the system ended the server later.
TEST(LocalModel, RefusesAKvCacheThatDoesNotFitBesideTheWeights) {
  const TestFolder folder;
  folder.write("config.json", std::string(kConfig) + "}");
  LocalModelOptions options = dummy_options(folder.path());
  options.kv_cache_bytes = int64_t{1} << 20;
  EXPECT_EQ(step_tokens(options), 128);
  options.kv_cache_bytes = options.available_bytes;  // leaves no room for weights
  const Result<LocalRunner> runner = load_local_runner(options);
  ASSERT_FALSE(runner.ok());
  EXPECT_EQ(runner.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(runner.error().where, "--kv-cache-memory-bytes");
  EXPECT_THAT(
      runner.error().message,
      testing::StartsWith("--kv-cache-memory-bytes is 1.00 GiB, and beside ")
  );
}

// A chat model whose turns end at the tokenizer's token alone ran on past it.
TEST(LocalModel, EndsAtTheTokensOfAllItsFiles) {
  ModelConfig config;
  config.vocab_size = 10;
  config.eos_token_ids = {7, 2};
  GenerationDefaults defaults;
  defaults.eos_token_ids = {2, 3};
  EXPECT_EQ(end_tokens(config, defaults, std::nullopt), (std::vector<TokenId>{2, 3, 7}));
  EXPECT_EQ(end_tokens(config, defaults, 9), (std::vector<TokenId>{2, 3, 7, 9}));
  EXPECT_EQ(end_tokens(config, defaults, 3), (std::vector<TokenId>{2, 3, 7}));
  EXPECT_EQ(end_tokens(config, defaults, 10), (std::vector<TokenId>{2, 3, 7})) << "no such row";
}

// Codes of our own are not decoded: what asked for that ran as int8 all the same.
TEST(LocalModel, RefusesToRunOtherwiseThanItIsStored) {
  ModelConfig plain;
  EXPECT_EQ(*quantization_of(plain, std::nullopt, true), std::nullopt);
  EXPECT_EQ(*quantization_of(plain, QuantizedFormat::kInt4), QuantizedFormat::kInt4);
  ModelConfig stored;
  stored.stored_quantization = QuantizedFormat::kInt8;
  EXPECT_EQ(*quantization_of(stored, std::nullopt), QuantizedFormat::kInt8);
  EXPECT_EQ(*quantization_of(stored, Quantization::stored()), QuantizedFormat::kInt8);
  EXPECT_EQ(*quantization_of(stored, Quantization::w8a8()), Quantization::w8a8());
  const auto error_of = [&](std::optional<Quantization> asked) {
    const auto found = quantization_of(stored, asked, true);
    return found ? "" : found.error().message;
  };
  EXPECT_EQ(error_of(std::nullopt), "the weights are stored as int8, not none");
  EXPECT_EQ(error_of(QuantizedFormat::kInt4), "the weights are stored as int8, not int4");
}

// Of all matrices, or of all but some.
TEST(LocalModel, KeepsWhatIsStoredInFourBits) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen2);
  for (const GroupOrder order : {GroupOrder::kNeighbours, GroupOrder::kAny}) {
    const TestFolder folder;
    folder.write("config.json", kGptqConfig);
    ASSERT_TRUE(GptqFile(config, order).write(folder.path("model.safetensors")));
    const auto quantization_of_runner = [&](LocalModelOptions options) {
      options.load_format = LoadFormat::kAuto;
      const Result<LocalRunner> runner = load_local_runner(std::move(options));
      EXPECT_TRUE(runner.ok()) << runner.error().message;
      return runner ? runner->quantization : std::nullopt;
    };
    LocalModelOptions options = dummy_options(folder.path());
    EXPECT_EQ(quantization_of_runner(options), std::nullopt);
    options.keeps_codes = true;
    EXPECT_EQ(quantization_of_runner(options), Quantization::stored());
    options.quantization = QuantizedFormat::kInt8;
    EXPECT_EQ(quantization_of_runner(options), Quantization(QuantizedFormat::kInt8));
  }
}

}  // namespace
}  // namespace millrace
