// The parts of a model, put together again.
#include "model/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/coded_matrices.h"
#include "model/model_test_data.h"

namespace millrace {
namespace {

// Every tensor that a dense model may have: the biases of q, k and v as Qwen2, all others as Llama,
// the norms of q and k as Qwen3.
ModelConfig config_with_everything() {
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  config.num_heads = 8;
  config.attention_bias = true;
  config.attention_out_bias = true;
  config.mlp_bias = true;
  config.qk_norm = true;
  return config;
}

struct Matrix {
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  std::vector<float> values;

  float at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * num_columns + column)];
  }
};

Matrix read(const WeightSource& source, const std::string& name) {
  const TensorInfo* const tensor = source.find(name);
  CHECK(tensor != nullptr, name);
  Matrix matrix = {tensor->num_rows(), tensor->row_length(), {}};
  matrix.values.resize(static_cast<size_t>(matrix.num_rows * matrix.num_columns));
  // In two reads, as a loader that takes panel after panel.
  const int64_t half = matrix.num_rows / 2;
  const auto split = static_cast<size_t>(half * matrix.num_columns);
  const std::span<float> values = matrix.values;
  if (half > 0) source.read_rows(*tensor, 0, half, values.first(split));
  source.read_rows(*tensor, half, matrix.num_rows - half, values.subspan(split));
  return matrix;
}

// The values of its codes, where it has any.
Matrix read_codes(const WeightSource& source, const std::string& name, size_t num_inputs = 64) {
  const TensorInfo* const tensor = source.find(name);
  CHECK(tensor != nullptr && source.code_form(*tensor).num_inputs == num_inputs, name);
  Matrix matrix = {tensor->num_rows(), tensor->row_length(), {}};
  const auto width = static_cast<size_t>(matrix.num_columns);
  const auto num_rows = static_cast<size_t>(matrix.num_rows);
  CodedRowsData rows;
  rows.codes.resize(num_rows * width);
  rows.scales.resize(num_rows * div_ceil(width, num_inputs));
  rows.bases.resize(rows.scales.size());
  source.read_codes(*tensor, 0, matrix.num_rows, {rows.codes, rows.scales, rows.bases, num_inputs});
  matrix.values = rows.values(width, num_inputs);
  return matrix;
}

enum class Split { kWhole, kRows, kColumns };

// Whether `part` is the given part of `whole`, with zeros beyond it.
bool is_part(const Matrix& part, const Matrix& whole, Split split, int64_t index) {
  const int64_t row_begin = split == Split::kRows ? index * part.num_rows : 0;
  const int64_t column_begin = split == Split::kColumns ? index * part.num_columns : 0;
  for (int64_t row = 0; row < part.num_rows; ++row) {
    for (int64_t column = 0; column < part.num_columns; ++column) {
      const int64_t from = row_begin + row;
      const int64_t at = column_begin + column;
      const bool is_beyond = from >= whole.num_rows || at >= whole.num_columns;
      if (part.at(row, column) != (is_beyond ? 0.0F : whole.at(from, at))) return false;
    }
  }
  return true;
}

struct Parts {
  ModelConfig config;
  TinyWeights whole;
  std::vector<std::unique_ptr<ShardedWeights>> ranks;

  Parts(const ModelConfig& config_of_all, int32_t world_size)
      : config(config_of_all), whole(config, 5) {
    for (int32_t rank = 0; rank < world_size; ++rank) {
      const ModelShard shard = {.rank = rank, .world_size = world_size};
      ranks.push_back(*ShardedWeights::make(config, shard, whole));
    }
  }

  void expect(const std::string& name, Split split, int64_t num_ranks_a_part = 1) const {
    expect_of(name, name, split, num_ranks_a_part);
  }
  void expect_of(
      const std::string& name,
      const std::string& whole_name,
      Split split,
      int64_t num_ranks_a_part = 1
  ) const {
    const Matrix all = read(whole, whole_name);
    for (int64_t rank = 0; rank < std::ssize(ranks); ++rank) {
      const Matrix part = read(*ranks[static_cast<size_t>(rank)], name);
      EXPECT_TRUE(is_part(part, all, split, rank / num_ranks_a_part)) << name << ' ' << rank;
      if (split == Split::kRows && num_ranks_a_part == 1) {
        EXPECT_GE(part.num_rows * std::ssize(ranks), all.num_rows) << name;
      }
      if (split == Split::kColumns && num_ranks_a_part == 1) {
        EXPECT_GE(part.num_columns * std::ssize(ranks), all.num_columns) << name;
      }
    }
  }
};

TEST(Shard, MatricesAreSplitByHeadsByTheInnerLayerAndByTheVocabulary) {
  for (const int32_t world_size : {1, 2, 4}) {
    const Parts parts(config_with_everything(), world_size);
    const int64_t ranks_a_kv_head = world_size == 4 ? 2 : 1;
    const std::string layer = "model.layers.1.";
    const std::string attention = layer + "self_attn.";
    parts.expect(attention + "q_proj.weight", Split::kRows);
    parts.expect(attention + "k_proj.weight", Split::kRows, ranks_a_kv_head);
    parts.expect(attention + "v_proj.weight", Split::kRows, ranks_a_kv_head);
    parts.expect(attention + "o_proj.weight", Split::kColumns);
    parts.expect(layer + "mlp.gate_proj.weight", Split::kRows);
    parts.expect(layer + "mlp.up_proj.weight", Split::kRows);
    parts.expect(layer + "mlp.down_proj.weight", Split::kColumns);
    parts.expect("lm_head.weight", Split::kRows);
    for (const char* const name :
         {"model.embed_tokens.weight",
          "model.norm.weight",
          "model.layers.2.input_layernorm.weight",
          "model.layers.2.post_attention_layernorm.weight",
          "model.layers.0.self_attn.q_norm.weight",
          "model.layers.0.self_attn.k_norm.weight"}) {
      parts.expect(name, Split::kWhole);
    }
  }
}

TEST(Shard, CodesAreSplitAsValuesAre) {
  const Parts parts(config_with_everything(), 2);
  const std::string layer = "model.layers.1.";
  const std::pair<std::string, Split> matrices[] = {
      {layer + "self_attn.q_proj.weight", Split::kRows},
      {layer + "mlp.gate_proj.weight", Split::kRows},
      {layer + "mlp.down_proj.weight", Split::kColumns}};
  for (const auto& [name, split] : matrices) {
    const Matrix whole = read_codes(parts.whole, name);
    for (int64_t rank = 0; rank < 2; ++rank) {
      Matrix part = read_codes(*parts.ranks[static_cast<size_t>(rank)], name);
      // Beyond the whole there is nothing to multiply.
      const int64_t column_begin = split == Split::kColumns ? rank * part.num_columns : 0;
      for (size_t i = 0; i < part.values.size(); ++i) {
        const int64_t column = column_begin + static_cast<int64_t>(i) % part.num_columns;
        if (column >= whole.num_columns) part.values[i] = 0.0F;
      }
      EXPECT_TRUE(is_part(part, whole, split, rank)) << name << ' ' << rank;
    }
  }
}

// Weights as codes of another form: a code is its place, a scale that of its group.
class OtherCodes : public TinyWeights {
 public:
  OtherCodes(const ModelConfig& config, CodeForm form) : TinyWeights(config, 5), form_(form) {}

  CodeForm code_form(const TensorInfo& tensor) const override {
    return tensor.shape.size() == 2 ? form_ : CodeForm{};
  }
  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    check_rows(tensor, row_begin, num_rows, out.codes.size());
    CHECK(form_.num_inputs % out.num_inputs == 0, "groups of which the stored ones consist");
    const auto width = static_cast<size_t>(tensor.row_length());
    const auto begin = static_cast<size_t>(row_begin) * width;
    for (size_t i = 0; i < out.codes.size(); ++i) {
      out.codes[i] = static_cast<uint8_t>((begin + i) % (size_t{1} << form_.bits));
    }
    const size_t num_scales = div_ceil(width, out.num_inputs);
    for (size_t i = 0; i < out.scales.size(); ++i) {
      out.scales[i] = static_cast<float>(1 + i % num_scales * out.num_inputs / form_.num_inputs);
      out.bases[i] = static_cast<float>(-(1 << (form_.bits - 1))) * out.scales[i];
    }
  }

 private:
  CodeForm form_;
};

// A slice keeps as much of a group as begins where it does.
TEST(Shard, CodesOfASliceAreByTheLargestGroupThatItBegins) {
  const std::string name = "model.layers.1.self_attn.o_proj.weight";
  struct Case {
    int64_t head_dim;  // of eight heads, so that the second of two parts begins at four times it
    CodeForm stored;
    CodeForm of_rank_1;
  };
  const Case cases[] = {
      {4, {6, 16, true}, {6, 16, true}},  // at 16
      {4, {8, 64, true}, {8, 16, true}},
      {4, {5, 32, false}, {5, 16, false}},
      {8, {8, 64, true}, {8, 32, true}},  // at 32
      {8, {5, 32, false}, {5, 32, false}},
      {8, {6, 16, true}, {6, 16, true}},
      {16, {8, 64, true}, {8, 64, true}},  // at 64
      {10, {6, 16, true}, {}},             // at 40
      {8, {}, {}}};
  for (const Case& one : cases) {
    ModelConfig config = config_with_everything();
    config.head_dim = one.head_dim;
    const OtherCodes source(config, one.stored);
    const auto part_of = [&](int32_t rank) {
      return *ShardedWeights::make(config, {.rank = rank, .world_size = 2}, source);
    };
    const auto first = part_of(0);
    EXPECT_EQ(first->code_form(*first->find(name)), one.stored) << one.head_dim;
    const auto second = part_of(1);
    const TensorInfo& tensor = *second->find(name);
    const CodeForm form = second->code_form(tensor);
    ASSERT_EQ(form, one.of_rank_1) << one.head_dim << ' ' << one.stored.bits;
    if (!form) continue;
    const Matrix whole = read_codes(source, name, one.stored.num_inputs);
    EXPECT_TRUE(is_part(read_codes(*second, name, form.num_inputs), whole, Split::kColumns, 1))
        << one.head_dim << ' ' << one.stored.bits;
  }
}

TEST(Shard, CodesAreThoseOfEachRankOrOfNone) {
  const ModelConfig config = config_with_everything();
  const TinyWeights whole(config, 5);
  EXPECT_EQ(coded_matrices_of_ranks(config, whole, 1)->names(), "uint4");
  const Result<CodedMatrices> of_two = coded_matrices_of_ranks(config, whole, 2);
  ASSERT_FALSE(of_two);  // heads that begin within a group
  EXPECT_THAT(of_two.error().message, testing::StartsWith("rank 1 of 2: tensor 'model.layers.0"));
  EXPECT_THAT(of_two.error().message, testing::EndsWith("within a group that shares a scale"));
  EXPECT_EQ(of_two.error().where, "model.layers.0.self_attn.o_proj.weight");
}

// Of two processes the second begins at input 16 of what attention says.
TEST(Shard, CodesOf8BitsBeginWithAGroup) {
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  config.num_heads = 2;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 128;
  config.tie_word_embeddings = true;
  TinyWeights weights(config, 5);
  for (TensorInfo& tensor : weights.mutable_tensors()) {
    if (tensor.name == "model.embed_tokens.weight") tensor.storage = StorageType::kQ6_K;
  }
  EXPECT_TRUE(coded_matrices_of_ranks(config, weights, 1)->embedding_is_head());
  const Result<CodedMatrices> of_two = coded_matrices_of_ranks(config, weights, 2);
  ASSERT_TRUE(of_two) << of_two.error().message;
  EXPECT_FALSE(of_two->embedding_is_head());
  EXPECT_EQ(of_two->format_of_head(), QuantizedFormat::kUint6By16AroundZero);
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  EXPECT_EQ(of_two->format_of(name, DType::kFloat16), MatrixFormat(QuantizedFormat::kUint4By16));

  for (TensorInfo& tensor : weights.mutable_tensors()) {
    if (tensor.name == name) tensor.storage = StorageType::kQ8_0;
  }
  EXPECT_TRUE(coded_matrices_of_ranks(config, weights, 1));
  const Result<CodedMatrices> refused = coded_matrices_of_ranks(config, weights, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, name);
}

TEST(Shard, BiasesFollowTheirMatricesAndThoseOfSumsAreOfRank0) {
  const Parts parts(config_with_everything(), 4);
  const std::string attention = "model.layers.1.self_attn.";
  const std::string mlp = "model.layers.1.mlp.";
  parts.expect(attention + "q_proj.bias", Split::kColumns);
  parts.expect(attention + "k_proj.bias", Split::kColumns, 2);
  parts.expect(attention + "v_proj.bias", Split::kColumns, 2);
  parts.expect(mlp + "gate_proj.bias", Split::kColumns);
  parts.expect(mlp + "up_proj.bias", Split::kColumns);
  for (const std::string& name : {attention + "o_proj.bias", mlp + "down_proj.bias"}) {
    EXPECT_EQ(read(*parts.ranks[0], name).values, read(parts.whole, name).values);
    for (size_t rank = 1; rank < 4; ++rank) {
      EXPECT_THAT(read(*parts.ranks[rank], name).values, testing::Each(0.0F)) << name;
    }
  }
}

TEST(Shard, ATiedHeadIsAPartOfTheEmbedding) {
  ModelConfig config = tiny_config(ModelFamily::kQwen2);
  ASSERT_TRUE(config.tie_word_embeddings);
  const Parts parts(config, 2);
  parts.expect_of("lm_head.weight", "model.embed_tokens.weight", Split::kRows);
  EXPECT_FALSE(shard_config(config, {.rank = 0, .world_size = 2})->tie_word_embeddings);
}

TEST(Shard, AConfigurationHasTheRanksShareAndIsTheSameOnAllRanks) {
  ModelConfig config = tiny_config(ModelFamily::kQwen3);
  config.num_heads = 24;
  config.num_kv_heads = 8;
  config.intermediate_size = 1000;
  config.vocab_size = 1000;
  const ModelConfig part = *shard_config(config, {.rank = 3, .world_size = 4});
  EXPECT_EQ(part.num_heads, 6);
  EXPECT_EQ(part.num_kv_heads, 2);
  EXPECT_EQ(part.intermediate_size, 256);  // 250 in whole groups of 64
  EXPECT_EQ(part.head_size(), 256);        // in whole panels of 16
  EXPECT_EQ(part.vocab_size, 1000);
  EXPECT_EQ(part.hidden_size, config.hidden_size);
  EXPECT_EQ(part.head_dim, config.head_dim);
  const ModelConfig shared_kv = *shard_config(config, {.rank = 23, .world_size = 24});
  EXPECT_EQ(shared_kv.num_heads, 1);
  EXPECT_EQ(shared_kv.num_kv_heads, 1);
}

Error refusal(const ModelConfig& config, int32_t world_size) {
  const Result<ModelConfig> part = shard_config(config, {.rank = 0, .world_size = world_size});
  CHECK(!part.ok(), "this model should not be split");
  return part.error();
}

TEST(Shard, RefusesByNameWhatCannotBeSplit) {
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  EXPECT_EQ(
      refusal(config, 4),
      invalid_argument(
          "6 attention heads cannot be split over 4 processes: expected a multiple",
          "num_attention_heads"
      )
  );
  config.num_heads = 24;
  config.num_kv_heads = 8;
  EXPECT_EQ(
      refusal(config, 3),
      invalid_argument(
          "8 KV heads cannot be split over 3 processes: expected a multiple or a divisor",
          "num_key_value_heads"
      )
  );
  config.moe.emplace();
  EXPECT_EQ(refusal(config, 2).where, "num_experts");
  config.moe.reset();
  config.stored_quantization = QuantizedFormat::kInt8;
  EXPECT_EQ(refusal(config, 2).code, ErrorCode::kUnsupported);
  EXPECT_EQ(refusal(config, 2).where, "quantization_config");
}

TEST(Shard, RefusesTensorsOfAnotherModel) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  TinyWeights source(config, 1);
  for (TensorInfo& tensor : source.mutable_tensors()) {
    if (tensor.name == "model.layers.0.mlp.down_proj.weight") tensor.shape = {52, 74};
  }
  const auto weights = ShardedWeights::make(config, {.rank = 1, .world_size = 2}, source);
  ASSERT_FALSE(weights);
  EXPECT_THAT(weights.error().message, testing::HasSubstr("down_proj.weight"));
  EXPECT_THAT(weights.error().message, testing::HasSubstr("[52, 75]"));
}

}  // namespace
}  // namespace millrace
