// A model that processes share, beside the same model in one process: the same tokens, and logits
// that differ by the order of sums alone. Processes are forked before any thread is started.
#include "model/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "model/cpu_model.h"
#include "model/model_goldens.h"
#include "model/model_test_data.h"
#include "model/shard.h"

namespace millrace {
namespace {

constexpr int32_t kBlockSize = 16;

struct Case {
  ModelConfig config;
  WeightFormat format;
  int32_t world_size;
  double error_max;  // of logits, relative to the largest of a row
};

CpuModelOptions options_for(const WeightFormat& format) {
  return {
      .dtype = format.dtype,
      .quantization = format.quantization,
      .kv_dtype = format.dtype,
      .block_size = kBlockSize,
      .num_blocks = 40,
      .max_model_len = 128,
      .max_num_batched_tokens = 128,
      .max_num_logits = 128,
      .num_hidden_slots = 2,
  };
}

std::unique_ptr<CpuModel> load_whole(const Case& test, ThreadPool& pool) {
  const TinyWeights weights(test.config, 11);
  return *CpuModel::load(test.config, weights, options_for(test.format), pool);
}

std::unique_ptr<CpuModel> load_part(const Case& test, ThreadPool& pool, ProcessGroup& group) {
  const ModelShard shard = {.rank = group.rank(), .world_size = group.world_size()};
  const TinyWeights whole(test.config, 11);
  const auto weights = *ShardedWeights::make(test.config, shard, whole);
  CpuModelOptions options = options_for(test.format);
  options.group = &group;
  return *CpuModel::load(*shard_config(test.config, shard), *weights, options, pool);
}

struct Transcript {
  std::vector<TokenId> tokens;      // chosen, of all sequences in the order of steps
  std::vector<size_t> chosen_rows;  // that they were chosen from
  std::vector<float> logits;        // of all rows of all steps
};

// Keeps all logits that another runner gives.
class Recorder : public ModelRunner {
 public:
  explicit Recorder(ModelRunner& runner) : runner_(runner) {}

  int64_t vocab_size() const override { return runner_.vocab_size(); }
  int64_t max_model_len() const override { return runner_.max_model_len(); }
  int32_t block_size() const override { return runner_.block_size(); }
  int32_t num_blocks() const override { return runner_.num_blocks(); }
  int32_t num_hidden_slots() const override { return runner_.num_hidden_slots(); }
  std::span<const float> forward(const ForwardBatch& batch) override {
    const std::span<const float> found = runner_.forward(batch);
    logits.insert(logits.end(), found.begin(), found.end());
    return found;
  }

  std::vector<float> logits;

 private:
  ModelRunner& runner_;
};

TokenId largest_of(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

constexpr size_t kPromptLengths[] = {37, 20, 5};
constexpr size_t kLengthMax = 90;

std::vector<TestSequence> start_sequences(const ModelRunner& model) {
  Rng rng(3);
  std::vector<std::vector<TokenId>> prompts(std::size(kPromptLengths));
  for (std::vector<TokenId>& prompt : prompts) {
    prompt.resize(kLengthMax);  // so that there are blocks for what is generated
    for (TokenId& id : prompt) {
      id = static_cast<TokenId>(rng.below(static_cast<uint64_t>(model.vocab_size())));
    }
  }
  std::vector<TestSequence> sequences = make_sequences(model, prompts, 21);
  for (size_t i = 0; i < sequences.size(); ++i) sequences[i].tokens.resize(kPromptLengths[i]);
  return sequences;
}

// A block of nobody's.
int32_t free_block(std::span<const TestSequence> sequences) {
  for (int32_t block = 0;; ++block) {
    const bool is_used = std::ranges::any_of(sequences, [&](const TestSequence& sequence) {
      return std::ranges::find(sequence.blocks, block) != sequence.blocks.end();
    });
    if (!is_used) return block;
  }
}

// Greedy generation from three prompts: in chunks beside the tokens of others; twice a block moves,
// and every third step saves a hidden state whose logits the next step asks for again. With
// `followed`, each sequence goes on with that transcript's tokens, whatever this runner chooses.
Transcript generate(ModelRunner& runner, const Transcript* followed = nullptr) {
  constexpr int32_t kNumSteps = 45;
  Recorder recorder(runner);
  const auto vocab = static_cast<size_t>(runner.vocab_size());
  std::vector<TestSequence> sequences = start_sequences(runner);
  Transcript transcript;
  for (int32_t step = 0; step < kNumSteps; ++step) {
    std::vector<TestChunk> chunks;
    for (TestSequence& sequence : sequences) {
      chunks.push_back({&sequence, std::min(7 + step, sequence.num_left())});
    }
    std::vector<KvBlockCopy> copies;
    if (step == 8 || step == 30) {
      int32_t& block = sequences[1].blocks[0];
      copies.push_back({.from = block, .to = free_block(sequences)});
      block = copies.back().to;
    }
    ForwardBatch batch = make_batch(chunks, kBlockSize);
    batch.block_copies = copies;
    if (step % 3 == 0) batch.hidden_saves = {{.token = batch.num_tokens() - 1, .slot = 1}};
    if (step % 3 == 1) batch.logit_rows.push_back(LogitRow::of_slot(1));
    const std::span<const float> logits = recorder.forward(batch);
    const size_t num_rows = batch.logit_rows.size();
    for (size_t i = 0; i < sequences.size(); ++i) {
      if (sequences[i].num_left() > 0) continue;
      const auto last = static_cast<size_t>(batch.cu_seqlens[i + 1]) - 1;
      transcript.chosen_rows.push_back(recorder.logits.size() / vocab - num_rows + last);
      transcript.tokens.push_back(largest_of(logits.subspan(last * vocab, vocab)));
      const Transcript& leading = followed == nullptr ? transcript : *followed;
      sequences[i].tokens.push_back(leading.tokens[transcript.tokens.size() - 1]);
    }
  }
  transcript.logits = recorder.logits;
  return transcript;
}

std::vector<std::byte> bytes_of(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

// The exit code says whether this rank had the logits of rank 0, bit for bit.
int follow(const Case& test, ProcessGroup& group) {
  ThreadPool pool(static_cast<size_t>(group.rank()));
  const auto part = load_part(test, pool, group);
  Recorder recorder(*part);
  follow_batches(recorder, group);
  std::vector<std::byte> logits;
  group.broadcast(logits);
  return logits == bytes_of(recorder.logits) ? EXIT_SUCCESS : EXIT_FAILURE;
}

Transcript generate_together(const Case& test, const Transcript* followed) {
  const auto group =
      *ProcessGroup::fork(test.world_size, [&](ProcessGroup& self) { return follow(test, self); });
  ThreadPool pool(2);
  Transcript transcript;
  {
    TensorParallelRunner runner(load_part(test, pool, *group), *group);
    transcript = generate(runner, followed);
  }
  std::vector<std::byte> logits = bytes_of(transcript.logits);
  group->broadcast(logits);
  const Result<void> done = group->wait_for_others();
  EXPECT_TRUE(done) << done.error().message;
  return transcript;
}

Transcript generate_alone(const Case& test) {
  ThreadPool pool(2);
  return generate(*load_whole(test, pool));
}

// How far the largest logit is above the next, relative to the largest.
double margin_of(std::span<const float> row) {
  std::vector<float> sorted(row.begin(), row.end());
  std::ranges::sort(sorted, std::greater());
  const double scale = std::max(std::abs(sorted.front()), std::abs(sorted.back()));
  return static_cast<double>(sorted[0] - sorted[1]) / scale;
}

// Runs the same tokens through both. The logits are near each other, and the tokens that are chosen
// the same, save where the bound on the error leaves more than one to choose.
void expect_same_as_alone(const Case& test) {
  const Transcript alone = generate_alone(test);
  const Transcript together = generate_together(test, &alone);
  ASSERT_EQ(together.logits.size(), alone.logits.size());
  const auto vocab = static_cast<size_t>(test.config.vocab_size);
  const auto row_of = [&](const Transcript& transcript, size_t row) {
    return std::span(transcript.logits).subspan(row * vocab, vocab);
  };
  double largest_error = 0.0;
  for (size_t row = 0; row < alone.logits.size() / vocab; ++row) {
    largest_error = std::max(largest_error, row_error(row_of(together, row), row_of(alone, row)));
  }
  EXPECT_LE(largest_error, test.error_max);
  size_t num_clear = 0;
  for (size_t i = 0; i < alone.tokens.size(); ++i) {
    if (margin_of(row_of(alone, alone.chosen_rows[i])) < 2 * test.error_max) continue;
    EXPECT_EQ(together.tokens[i], alone.tokens[i]) << "token " << i;
    ++num_clear;
  }
  EXPECT_GE(num_clear, alone.tokens.size() / 2);
}

struct FormatCase {
  WeightFormat format;
  double error_max;
};

// int8: o and down, and the inputs of down (to 8 bits), are rounded in the groups of a part, which
// are not those of the whole.
const FormatCase kFormats[] = {
    {{DType::kFloat32}, 3e-6},
    {{DType::kBFloat16}, 1e-2},
    {{DType::kFloat32, QuantizedFormat::kInt8}, 2.5e-2},
};

// Llama with all biases that it may have.
ModelConfig biased_llama() {
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  config.attention_bias = true;
  config.attention_out_bias = true;
  config.mlp_bias = true;
  return config;
}

std::vector<ModelConfig> configs() {
  std::vector<ModelConfig> found = {biased_llama()};
  for (const ModelFamily family : kDenseFamilies) found.push_back(tiny_config(family));
  found.push_back(tiny_config(ModelFamily::kQwen3));
  found.back().tie_word_embeddings = true;
  return found;
}

TEST(TensorParallel, TwoProcessesGiveTheTokensOfOne) {
  for (const ModelConfig& config : configs()) {
    for (const FormatCase& format : kFormats) {
      SCOPED_TRACE(name_of(config.family));
      expect_same_as_alone({config, format.format, 2, format.error_max});
    }
  }
}

// With two KV heads, each is had by two ranks; and no size but that of the heads is a multiple.
TEST(TensorParallel, FourProcessesGiveTheTokensOfOne) {
  for (ModelConfig config : configs()) {
    config.num_heads = 8;
    config.intermediate_size = 250;
    for (const FormatCase& format : kFormats) {
      SCOPED_TRACE(name_of(config.family));
      expect_same_as_alone({config, format.format, 4, format.error_max});
    }
  }
}

// Parts that begin with groups of 64 inputs, as codes of 4 bits are split.
TEST(TensorParallel, TwoProcessesShareCodes) {
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  config.num_heads = 4;
  config.head_dim = 32;
  config.intermediate_size = 250;
  expect_same_as_alone({config, {DType::kFloat32, Quantization::stored()}, 2, 2e-4});
}

// Left to itself, on its own tokens.
TEST(TensorParallel, GeneratesTheTextOfOneProcessInFloat32) {
  for (const ModelConfig& config : configs()) {
    const Case test = {config, {DType::kFloat32}, 2, 0.0};
    const Transcript alone = generate_alone(test);
    EXPECT_GT(alone.tokens.size(), 100U);
    EXPECT_EQ(generate_together(test, nullptr).tokens, alone.tokens) << name_of(config.family);
  }
}

TEST(TensorParallel, AGroupOfOneGivesTheBitsOfAModelAlone) {
  for (const ModelConfig& config : configs()) {
    for (const FormatCase& format : kFormats) {
      expect_same_as_alone({config, format.format, 1, 0.0});
    }
  }
}

// Is killed with its third batch.
class ShortLived : public Recorder {
 public:
  using Recorder::Recorder;
  std::span<const float> forward(const ForwardBatch& batch) override {
    if (++num_batches_ == 3) ::raise(SIGKILL);
    return Recorder::forward(batch);
  }

 private:
  int32_t num_batches_ = 0;
};

void generate_with_a_rank_that_dies() {
  const Case test = {tiny_config(ModelFamily::kLlama), {DType::kFloat32}, 2, 0.0};
  const auto group = *ProcessGroup::fork(2, [&](ProcessGroup& self) {
    ThreadPool pool(1);
    const auto part = load_part(test, pool, self);
    ShortLived runner(*part);
    follow_batches(runner, self);
    return EXIT_SUCCESS;
  });
  ThreadPool pool(2);
  TensorParallelRunner runner(load_part(test, pool, *group), *group);
  (void)generate(runner);
}

TEST(TensorParallelDeathTest, ARankThatDiesIsAnErrorAndNoHang) {
  EXPECT_EXIT(
      generate_with_a_rank_that_dies(),
      testing::ExitedWithCode(EXIT_FAILURE),
      "rank 1 of 2 was killed by signal 9"
  );
}

}  // namespace
}  // namespace millrace
