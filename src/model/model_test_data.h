// Tiny models for tests: weights that are a pure function of a tensor's name, as in
// tools/goldens/model_goldens.py, and sequences with scattered KV blocks to run on them.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/math.h"
#include "base/rng.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/quantized_test_data.h"
#include "model/config.h"
#include "model/cpu_model.h"
#include "model/forward_batch.h"
#include "model/model_runner.h"
#include "model/weight_names.h"
#include "tensor/dtype.h"

namespace millrace {

class TinyWeights : public WeightSource {
 public:
  // Exactly the tensors of `config`; rounded to bfloat16 where a golden wants them so.
  TinyWeights(const ModelConfig& config, uint64_t seed, DType rounding = DType::kFloat32)
      : tensors_(expected_tensors(config)), seed_(seed), rounding_(rounding) {}

  std::vector<TensorInfo>& mutable_tensors() { return tensors_; }

  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    CHECK(static_cast<int64_t>(out.size()) == num_rows * tensor.row_length(), "room for the rows");
    const uint64_t key = fnv1a(tensor.name) ^ seed_;
    const auto begin = static_cast<uint64_t>(row_begin * tensor.row_length());
    const Range range = range_of(tensor);
    for (size_t i = 0; i < out.size(); ++i) {
      const double unit = random_unit(key, begin + i);
      out[i] = static_cast<float>(range.offset + range.scale * (2.0 * unit - 1.0));
      if (rounding_ == DType::kBFloat16) out[i] = to_float(to_bfloat16(out[i]));
    }
  }

  // Those values, rounded: to 4 bits in layers, or as blocks of their storage are.
  CodeForm code_form(const TensorInfo& tensor) const override {
    if (tensor.shape.size() != 2) return {};
    if (tensor.storage != StorageType::kF32) return millrace::code_form(tensor.storage);
    if (tensor.name.find(".layers.") == std::string::npos) return {};
    return {.bits = 4, .num_inputs = 64, .is_symmetric = false};
  }
  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    std::vector<float> values(out.codes.size());
    read_rows(tensor, row_begin, num_rows, values);
    const auto width = static_cast<size_t>(tensor.row_length());
    const CodeForm form = code_form(tensor);
    const CodedRowsData rounded =
        coded(values, width, {form.bits, form.num_inputs, !form.is_symmetric, form.is_iq4});
    std::ranges::copy(rounded.codes, out.codes.begin());
    const size_t num_scales = div_ceil(width, out.num_inputs);
    const size_t num_stored = div_ceil(width, form.num_inputs);
    for (size_t i = 0; i < out.scales.size(); ++i) {
      const size_t place =
          i / num_scales * num_stored + i % num_scales * out.num_inputs / form.num_inputs;
      out.scales[i] = rounded.scales[place];
      out.bases[i] = rounded.bases[place];
    }
  }

 private:
  struct Range {
    double offset;
    double scale;
  };

  static uint64_t fnv1a(std::string_view text) {
    uint64_t value = 0xcbf29ce484222325ULL;
    for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
    return value;
  }
  static Range range_of(const TensorInfo& tensor) {
    const std::string& name = tensor.name;
    if (tensor.shape.size() == 1)
      return name.ends_with(".bias") ? Range{0.0, 0.5} : Range{1.0, 0.25};
    if (name.find("embed_tokens") != std::string::npos) return {0.0, 1.0};
    const bool to_residual =
        name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    const double gain = to_residual ? 0.5 : 1.0;
    return {0.0, gain * std::sqrt(3.0 / static_cast<double>(tensor.shape[1]))};
  }

  std::vector<TensorInfo> tensors_;
  uint64_t seed_;
  DType rounding_;
};

// A model of a dense family, with what is its own and sizes that fill no vector.
inline ModelConfig tiny_config(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.hidden_size = 52;
  config.intermediate_size = 75;
  config.num_layers = 3;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = family == ModelFamily::kQwen3 ? 20 : 10;
  config.vocab_size = 103;
  config.max_position_embeddings = 1024;
  config.rms_norm_eps = 1e-5;
  config.attention_bias = family == ModelFamily::kQwen2;
  config.qk_norm = family == ModelFamily::kQwen3;
  config.tie_word_embeddings = family == ModelFamily::kQwen2;
  return config;
}

constexpr ModelFamily kDenseFamilies[] = {
    ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3};

// The same with five experts in each layer but the second, and one that all tokens share.
inline ModelConfig tiny_mixture() {
  ModelConfig config = tiny_config(ModelFamily::kQwen2);
  config.family = ModelFamily::kQwen2Moe;
  config.moe = MoeConfig{
      .num_experts = 5,
      .num_experts_per_token = 2,
      .expert_intermediate_size = 21,
      .shared_expert_intermediate_size = 37,
      .dense_layers = {1},
  };
  return config;
}

// One sequence under way: its tokens, how many of them are computed, and its scattered blocks.
struct TestSequence {
  std::vector<TokenId> tokens;
  int32_t num_computed = 0;
  std::vector<int32_t> blocks;

  int32_t num_left() const { return static_cast<int32_t>(tokens.size()) - num_computed; }
};

// Sequences that share a model's blocks, dealt to them in an order that `seed` shuffles.
inline std::vector<TestSequence> make_sequences(
    const ModelRunner& model, std::span<const std::vector<TokenId>> prompts, uint64_t seed
) {
  std::vector<int32_t> blocks(static_cast<size_t>(model.num_blocks()));
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
  Rng rng(seed);
  for (size_t i = blocks.size() - 1; i > 0; --i) std::swap(blocks[i], blocks[rng.below(i + 1)]);
  std::vector<TestSequence> sequences;
  for (const std::vector<TokenId>& prompt : prompts) {
    const size_t count = div_ceil(prompt.size(), static_cast<size_t>(model.block_size()));
    CHECK(count <= blocks.size(), "enough blocks for the test");
    sequences.push_back({prompt, 0, {blocks.end() - static_cast<ptrdiff_t>(count), blocks.end()}});
    blocks.resize(blocks.size() - count);
  }
  return sequences;
}

// One part of a step: the next `num_tokens` tokens of a sequence; logits of all of them are wanted.
struct TestChunk {
  TestSequence* sequence;
  int32_t num_tokens;
};

inline ForwardBatch make_batch(std::span<const TestChunk> chunks, int32_t block_size) {
  ForwardBatch batch;
  batch.cu_seqlens.push_back(0);
  for (const TestChunk& chunk : chunks) {
    batch.max_blocks_per_sequence = std::max(
        batch.max_blocks_per_sequence, static_cast<int32_t>(chunk.sequence->blocks.size())
    );
  }
  for (const TestChunk& chunk : chunks) {
    TestSequence& sequence = *chunk.sequence;
    for (int32_t i = 0; i < chunk.num_tokens; ++i) {
      const int32_t position = sequence.num_computed + i;
      const int32_t block = sequence.blocks[static_cast<size_t>(position / block_size)];
      batch.logit_rows.push_back(LogitRow::of_token(batch.num_tokens()));
      batch.token_ids.push_back(sequence.tokens[static_cast<size_t>(position)]);
      batch.positions.push_back(position);
      batch.slot_mapping.push_back(block * block_size + position % block_size);
    }
    sequence.num_computed += chunk.num_tokens;
    batch.cu_seqlens.push_back(batch.num_tokens());
    batch.context_lens.push_back(sequence.num_computed);
    // Entries past the context are never read; -1 would show it.
    std::vector<int32_t> row = sequence.blocks;
    row.resize(static_cast<size_t>(batch.max_blocks_per_sequence), -1);
    batch.block_tables.insert(batch.block_tables.end(), row.begin(), row.end());
  }
  return batch;
}

// Of a few tokens, in float32.
inline std::vector<float> logits_of(
    const ModelConfig& config,
    const WeightSource& source,
    std::optional<Quantization> quantization = {}
) {
  ThreadPool pool(2);
  const CpuModelOptions options{
      .dtype = DType::kFloat32,
      .quantization = quantization,
      .kv_dtype = DType::kFloat32,
      .num_blocks = 8,
      .max_model_len = 64,
      .max_num_batched_tokens = 64,
      .max_num_logits = 64,
  };
  const auto model = CpuModel::load(config, source, options, pool);
  CHECK(model.ok(), model.error().message);
  std::vector<TestSequence> sequences =
      make_sequences(**model, std::vector<std::vector<TokenId>>{{3, 1, 4, 1, 5, 9, 2, 6}}, 1);
  const TestChunk chunk{&sequences[0], 8};
  const std::span<const float> logits =
      (*model)->forward(make_batch(std::span(&chunk, 1), (*model)->block_size()));
  return {logits.begin(), logits.end()};
}

}  // namespace millrace
