// The CPU model against transformers, and against itself: the same bits however the work is cut.
#include "model/cpu_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/math.h"
#include "model/memory_plan.h"
#include "model/model_goldens.h"
#include "model/model_test_data.h"

namespace millrace {
namespace {

constexpr const char* kGoldens = MILLRACE_SOURCE_DIR "/tests/golden/models";
constexpr int32_t kMaxModelLen = 800;

CpuModelOptions options_for(DType dtype, DType kv_dtype) {
  return {
      .dtype = dtype,
      .kv_dtype = kv_dtype,
      .block_size = 16,
      .num_blocks = 120,
      .max_model_len = kMaxModelLen,
      .max_num_batched_tokens = 1000,
      .max_num_logits = 1000,
  };
}

// The logits of every position of a prompt, computed `chunk` tokens at a time. Beside it in the
// same batches run as many tokens of other sequences as `num_neighbours` says.
Logits run_prompt(
    CpuModel& model, const std::vector<TokenId>& tokens, int32_t chunk, size_t num_neighbours = 0
) {
  std::vector<std::vector<TokenId>> prompts = {tokens};
  Rng rng(7 + num_neighbours);
  for (size_t n = 0; n < num_neighbours; ++n) {
    prompts.emplace_back(50 + 20 * n);
    for (TokenId& id : prompts.back()) {
      id = static_cast<TokenId>(rng.below(static_cast<uint64_t>(model.vocab_size())));
    }
  }
  std::vector<TestSequence> sequences =
      make_sequences(model, prompts, 1000 + static_cast<uint64_t>(chunk));
  TestSequence& prompt = sequences[0];
  Logits logits;
  for (int32_t step = 0; prompt.num_left() > 0; ++step) {
    // The prompt comes in the middle of the batch; neighbours run by one token and by several.
    std::vector<TestChunk> chunks;
    for (size_t n = 1; n < sequences.size(); ++n) {
      const int32_t wanted = (step + static_cast<int32_t>(n)) % 3 == 0 ? 9 : 1;
      const int32_t count = std::min(wanted, sequences[n].num_left());
      if (count > 0) chunks.push_back({&sequences[n], count});
    }
    const size_t place = chunks.size() / 2;
    const int32_t count = std::min(chunk, prompt.num_left());
    chunks.insert(chunks.begin() + static_cast<ptrdiff_t>(place), {&prompt, count});
    const ForwardBatch batch = make_batch(chunks, model.block_size());
    const std::span<const float> all = model.forward(batch);
    const auto vocab = static_cast<size_t>(model.vocab_size());
    const auto begin = static_cast<size_t>(batch.cu_seqlens[place]);
    append_bits(all.subspan(begin * vocab, static_cast<size_t>(count) * vocab), logits);
  }
  return logits;
}

std::unique_ptr<CpuModel> load_tiny(
    const Golden& golden, const CpuModelOptions& options, ThreadPool& pool, DType rounding
) {
  const TinyWeights weights(golden.config, golden.seed, rounding);
  Result<std::unique_ptr<CpuModel>> model = CpuModel::load(golden.config, weights, options, pool);
  CHECK(model.ok(), model.error().message);
  return *std::move(model);
}

struct GoldenKind {
  std::string_view name;
  DType rounding;  // of the weights in the file
  DType dtype;
  DType kv_dtype;
  double error_max;  // relative to the largest logit of the position
};

constexpr GoldenKind kKinds[] = {
    {"float32", DType::kFloat32, DType::kFloat32, DType::kFloat32, 1e-4},
    {"bfloat16_weights", DType::kBFloat16, DType::kFloat32, DType::kFloat32, 1e-4},
    // The same weights, but the inputs of every product rounded to bfloat16 too.
    {"bfloat16_weights", DType::kBFloat16, DType::kBFloat16, DType::kFloat32, 1e-2},
    {"bfloat16", DType::kBFloat16, DType::kBFloat16, DType::kBFloat16, 2e-2},
    {"float32", DType::kFloat32, DType::kFloat16, DType::kFloat16, 5e-3},
};

// The fastest of those that all give the same bits, and AMX beside it, be it emulated.
class CpuModelOnIsa : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(
    ,
    CpuModelOnIsa,
    testing::ValuesIn(std::set{best_isa(), supported_isas().back()}),
    [](const auto& isa) { return isa.param == Isa::kAmx ? "Amx" : "Best"; }
);

TEST_P(CpuModelOnIsa, GivesTheLogitsOfTransformers) {
  ThreadPool pool(2);
  for (const Golden& golden : read_goldens(kGoldens)) {
    for (const GoldenKind& kind : kKinds) {
      CpuModelOptions options = options_for(kind.dtype, kind.kv_dtype);
      options.isa = GetParam();
      const auto model = load_tiny(golden, options, pool, kind.rounding);
      for (const GoldenPrompt& prompt : golden.prompts) {
        const Logits logits = run_prompt(*model, prompt.token_ids, kMaxModelLen);
        const double error = largest_error(prompt, kind.name, logits);
        EXPECT_LE(error, kind.error_max) << golden.name << ' ' << kind.name;
        RecordProperty(
            fmt::format(
                "{} {} {} {}", golden.name, kind.name, name_of(kind.dtype), name_of(kind.kv_dtype)
            ),
            fmt::format("{:.2e}", error)
        );
      }
    }
  }
}

constexpr WeightFormat kFormats[] = {
    {DType::kFloat32},
    {DType::kFloat16},
    {DType::kBFloat16},
    {DType::kBFloat16, QuantizedFormat::kInt8},
    {DType::kFloat32, QuantizedFormat::kInt4},
    {DType::kFloat32, Quantization::stored()},
};

CpuModelOptions options_for(const WeightFormat& format) {
  CpuModelOptions options = options_for(format.dtype, format.dtype);
  options.quantization = format.quantization;
  return options;
}

// Calls function(golden, model) of each golden in each format.
void for_each_model(Isa isa, auto&& function) {
  ThreadPool pool(2);
  for (const Golden& golden : read_goldens(kGoldens)) {
    for (const WeightFormat& format : kFormats) {
      SCOPED_TRACE(
          testing::Message() << golden.name << ' ' << name_of(format.dtype)
                             << (format.quantization ? ", quantized" : "")
      );
      CpuModelOptions options = options_for(format);
      options.isa = isa;
      function(golden, *load_tiny(golden, options, pool, DType::kFloat32));
    }
  }
}

TEST_P(CpuModelOnIsa, GivesTheSameBitsWhollyInChunksTokenByTokenAndAmongNeighbours) {
  // The longest, of 768 tokens, would take an emulated one a minute.
  const size_t num_tokens_max = GetParam() == best_isa() ? kMaxModelLen : 40;
  for_each_model(GetParam(), [&](const Golden& golden, CpuModel& model) {
    for (const GoldenPrompt& prompt : golden.prompts) {
      std::vector<TokenId> tokens = prompt.token_ids;
      tokens.resize(std::min(tokens.size(), num_tokens_max));
      const Logits whole = run_prompt(model, tokens, kMaxModelLen);
      EXPECT_EQ(run_prompt(model, tokens, 1), whole);
      EXPECT_EQ(run_prompt(model, tokens, 7), whole);
      EXPECT_EQ(run_prompt(model, tokens, 33), whole);
      EXPECT_EQ(run_prompt(model, tokens, 1, 3), whole);
      EXPECT_EQ(run_prompt(model, tokens, 13, 4), whole);
    }
  });
}

// The logits of the wanted tokens of a batch, and those of each sequence's token after it, which
// attends to what the batch left in the cache.
Logits run_wanted(
    CpuModel& model, std::span<const std::vector<TokenId>> prompts, std::span<const int32_t> wanted
) {
  std::vector<TestSequence> sequences = make_sequences(model, prompts, 3);
  std::vector<TestChunk> chunks;
  for (TestSequence& sequence : sequences) chunks.push_back({&sequence, sequence.num_left() - 1});
  ForwardBatch batch = make_batch(chunks, model.block_size());
  batch.logit_rows.clear();
  for (const int32_t token : wanted) batch.logit_rows.push_back(LogitRow::of_token(token));
  Logits logits;
  append_bits(model.forward(batch), logits);
  for (TestChunk& chunk : chunks) chunk.num_tokens = 1;
  append_bits(model.forward(make_batch(chunks, model.block_size())), logits);
  return logits;
}

TEST_P(CpuModelOnIsa, GivesTheSameBitsWhateverElseIsWanted) {
  for_each_model(GetParam(), [](const Golden& golden, CpuModel& model) {
    const auto vocab = static_cast<ptrdiff_t>(model.vocab_size());
    std::vector<TokenId> prompt = golden.prompts.front().token_ids;
    prompt.resize(24, 7);
    const std::vector<std::vector<TokenId>> prompts = {prompt, {1, 2, 3, 4}, prompt};
    std::vector<int32_t> all(23 + 3 + 23);
    std::iota(all.begin(), all.end(), 0);
    const Logits whole = run_wanted(model, prompts, all);
    // None, the last, some with a gap and out of order, one of a sequence of several.
    const std::vector<int32_t> choices[] = {{}, {22, 25, 48}, {48, 2, 9, 9}, {24}};
    for (const std::vector<int32_t>& wanted : choices) {
      Logits expected;
      for (const int32_t token : wanted) {
        const auto row = whole.begin() + token * vocab;
        expected.insert(expected.end(), row, row + vocab);
      }
      expected.insert(expected.end(), whole.end() - 3 * vocab, whole.end());
      EXPECT_EQ(run_wanted(model, prompts, wanted), expected) << testing::PrintToString(wanted);
    }
  });
}

double squared_distance(const Logits& a, const Logits& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference =
        static_cast<double>(std::bit_cast<float>(a[i]) - std::bit_cast<float>(b[i]));
    sum += difference * difference;
  }
  return sum;
}

TEST(CpuModel, MultipliesAsManyTermsAsTheQuantizationSays) {
  ThreadPool pool(1);
  for (const Golden& golden : read_goldens(kGoldens)) {
    const auto logits = [&](std::optional<Quantization> quantization) {
      CpuModelOptions options = options_for({DType::kFloat32, quantization});
      options.isa = Isa::kReference;  // with AMX they are bfloat16
      const auto model = load_tiny(golden, options, pool, DType::kFloat32);
      return run_prompt(*model, golden.prompts.front().token_ids, kMaxModelLen);
    };
    const Logits exact = logits(std::nullopt);
    EXPECT_LT(
        squared_distance(logits(QuantizedFormat::kInt8), exact),
        squared_distance(logits(Quantization::w8a8()), exact)
    ) << golden.name;
  }
}

TEST(CpuModel, GivesTheSameBitsOnEveryInstructionSetThreadCountAndBlockSize) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const Golden& golden : read_goldens(kGoldens)) {
    for (const WeightFormat& format : kFormats) {
      CpuModelOptions options = options_for(format);
      const std::vector<TokenId>& tokens = golden.prompts.front().token_ids;
      const std::vector<TokenId> start(tokens.begin(), tokens.begin() + std::ssize(tokens) / 2 + 1);
      const auto logits_by_reference = [&](Isa isa) {
        options.isa = isa;
        const auto reference = load_tiny(golden, options, one, DType::kFloat32);
        return run_prompt(*reference, start, kMaxModelLen);
      };
      const Logits by_pairs = logits_by_reference(Isa::kReference);
      const Logits by_tiles = logits_by_reference(Isa::kAmxReference);
      for (const Isa isa : supported_isas()) {
        const Logits& expected = reference_of(isa) == Isa::kReference ? by_pairs : by_tiles;
        options.isa = isa;
        options.block_size = isa == Isa::kAvx2 ? 48 : 32;
        const auto model = load_tiny(golden, options, three, DType::kFloat32);
        EXPECT_EQ(run_prompt(*model, start, kMaxModelLen), expected)
            << golden.name << ' ' << name_of(isa) << ' ' << name_of(format.dtype)
            << (format.quantization ? ", quantized" : "");
      }
    }
  }
}

Golden golden_named(std::string_view name) {
  return read_golden(
      std::filesystem::path(MILLRACE_SOURCE_DIR "/tests/golden/models") /
      fmt::format("{}.json", name)
  );
}

// Each of these mistakes must show in a golden, or the golden proves nothing about it.
TEST(CpuModelGoldens, NoticeAWrongConfiguration) {
  ThreadPool pool(1);
  const auto error_with = [&](std::string_view name, void (*spoil)(ModelConfig&)) {
    Golden golden = golden_named(name);
    spoil(golden.config);
    const auto model =
        load_tiny(golden, options_for(DType::kFloat32, DType::kFloat32), pool, DType::kFloat32);
    const GoldenPrompt& prompt = golden.prompts.back();
    return largest_error(prompt, "float32", run_prompt(*model, prompt.token_ids, kMaxModelLen));
  };
  EXPECT_GT(error_with("llama31-rope", [](ModelConfig& c) { c.rope_scaling.reset(); }), 1e-3);
  EXPECT_GT(error_with("llama31-rope", [](ModelConfig& c) { c.rope_scaling->factor = 7; }), 1e-3);
  EXPECT_GT(error_with("qwen2", [](ModelConfig& c) { c.rope_theta = 1e5; }), 1e-3);
  EXPECT_GT(error_with("qwen2", [](ModelConfig& c) { c.attention_bias = false; }), 1e-3);
  EXPECT_GT(error_with("qwen3", [](ModelConfig& c) { c.qk_norm = false; }), 1e-3);
  EXPECT_GT(error_with("llama-mha", [](ModelConfig& c) { c.tie_word_embeddings = true; }), 1e-3);
  EXPECT_GT(error_with("llama-biases", [](ModelConfig& c) { c.mlp_bias = false; }), 1e-3);
  EXPECT_GT(error_with("llama-biases", [](ModelConfig& c) { c.attention_out_bias = false; }), 1e-3);
  const auto flip_normalizing = [](ModelConfig& c) { c.moe->normalize_topk ^= true; };
  EXPECT_GT(error_with("qwen3-moe", flip_normalizing), 1e-3);
  EXPECT_GT(error_with("qwen2-moe", flip_normalizing), 1e-3);
  EXPECT_GT(error_with("qwen3-moe", [](ModelConfig& c) { --c.moe->num_experts_per_token; }), 1e-3);
  EXPECT_GT(error_with("qwen3-moe", [](ModelConfig& c) { c.moe->dense_layers.clear(); }), 1e-3);
  const auto drop_shared = [](ModelConfig& c) { c.moe->shared_expert_intermediate_size = 0; };
  EXPECT_GT(error_with("qwen2-moe", drop_shared), 1e-3);
}

Error load_error(const ModelConfig& config, const WeightSource& source, CpuModelOptions options) {
  ThreadPool pool(1);
  const Result<std::unique_ptr<CpuModel>> model = CpuModel::load(config, source, options, pool);
  CHECK(!model.ok(), "this model should not load");
  return model.error();
}

TEST(CpuModel, NamesTheTensorThatIsMissingOrMisshapen) {
  const Golden golden = golden_named("qwen2");
  const CpuModelOptions options = options_for(DType::kFloat32, DType::kFloat32);
  TinyWeights missing(golden.config, 1);
  std::erase_if(missing.mutable_tensors(), [](const TensorInfo& tensor) {
    return tensor.name == "model.layers.1.mlp.up_proj.weight";
  });
  const Error error = load_error(golden.config, missing, options);
  EXPECT_THAT(error.message, testing::HasSubstr("model.layers.1.mlp.up_proj.weight"));
  EXPECT_THAT(error.message, testing::HasSubstr("[99, 56]"));

  TinyWeights misshapen(golden.config, 1);
  for (TensorInfo& tensor : misshapen.mutable_tensors()) {
    if (tensor.name == "model.layers.0.self_attn.k_proj.weight") tensor.shape = {8, 57};
  }
  const Error other = load_error(golden.config, misshapen, options);
  EXPECT_THAT(other.message, testing::HasSubstr("model.layers.0.self_attn.k_proj.weight"));
  EXPECT_THAT(other.message, testing::HasSubstr("[8, 57]"));
  EXPECT_THAT(other.message, testing::HasSubstr("[8, 56]"));
}

// Of one tensor the bits are random: what a damaged or hostile file may hold.
class RandomBits : public TinyWeights {
 public:
  RandomBits(const ModelConfig& config, std::string name)
      : TinyWeights(config, 1), name_(std::move(name)) {}
  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    if (tensor.name != name_) return TinyWeights::read_rows(tensor, row_begin, num_rows, out);
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t index = static_cast<uint64_t>(row_begin) * out.size() + i;
      out[i] = to_float(BFloat16{static_cast<uint16_t>(random_unit(7, index) * 65536.0)});
    }
  }

 private:
  std::string name_;
};

TEST(CpuModel, NamesTheTensorWhoseBitsAreNoWeights) {
  const Golden golden = golden_named("qwen2");
  const CpuModelOptions options = options_for(DType::kBFloat16, DType::kBFloat16);
  const RandomBits weights(golden.config, "model.layers.1.mlp.up_proj.weight");
  const Error error = load_error(golden.config, weights, options);
  EXPECT_THAT(
      error.message,
      testing::HasSubstr("model.layers.1.mlp.gate_proj.weight, model.layers.1.mlp.up_proj.weight: ")
  );
  EXPECT_THAT(error.message, testing::HasSubstr("load them as float16 or float32, or quantized"));
  ThreadPool pool(2);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    EXPECT_TRUE(CpuModel::load(golden.config, weights, options_for(dtype, dtype), pool));
  }
}

TEST(CpuModel, RefusesOptionsThatCannotBe) {
  const Golden golden = golden_named("qwen3");
  const TinyWeights weights(golden.config, 1);
  const CpuModelOptions good = options_for(DType::kFloat32, DType::kFloat32);
  CpuModelOptions bad = good;
  bad.block_size = 24;
  EXPECT_THAT(
      load_error(golden.config, weights, bad).message, testing::HasSubstr("multiple of 16")
  );
  bad = good;
  bad.num_blocks = 0x7fffffff;
  EXPECT_THAT(load_error(golden.config, weights, bad).message, testing::HasSubstr("KV blocks"));
  bad = good;
  bad.max_num_logits = 0;
  EXPECT_THAT(
      load_error(golden.config, weights, bad).message, testing::HasSubstr("max_num_logits")
  );
  ModelConfig wide = golden.config;
  wide.head_dim = 258;
  EXPECT_THAT(load_error(wide, weights, good).message, testing::HasSubstr("head_dim is 258"));
}

TEST(CpuModel, ReportsProgressAndWhatItAllocates) {
  const Golden golden = golden_named("qwen3");
  const TinyWeights weights(golden.config, 1);
  ThreadPool pool(2);
  const CpuModelOptions options = options_for(DType::kBFloat16, DType::kFloat16);
  std::vector<size_t> done;
  const auto model = *CpuModel::load(
      golden.config,
      weights,
      options,
      pool,
      [&](size_t num_done, size_t num_tensors) {
        EXPECT_EQ(num_tensors, weights.tensors().size());
        done.push_back(num_done);
      }
  );
  ASSERT_EQ(done.size(), weights.tensors().size());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), weights.tensors().size());

  EXPECT_EQ(model->num_kv_bytes(), 120U * 16 * 3 * 2 * 32 * 2);
  EXPECT_EQ(kv_bytes_per_block(golden.config, DType::kFloat16, 16), 16U * 3 * 2 * 32 * 2);
  const WorkspaceBytes bytes = CpuModel::workspace_bytes(golden.config, options, 2);
  EXPECT_EQ(bytes.hidden, 1000U * 48 * 4);
  EXPECT_EQ(bytes.logits, 1000U * 111 * 4);
  // Of each thread: q and results of 6 tokens x 4 heads of 32, and of one token in 3 more splits
  // of 256 positions; in whole cache lines.
  EXPECT_EQ(bytes.attention_scratch, 2U * (24 * 32 + (24 + 3 * 4) * (2 + 32) + 8) * 4);
  EXPECT_GT(bytes.total(), bytes.qkv + bytes.activation);
}

TEST(CpuModel, KeepsExpertsInAsManyBytesAsPlanned) {
  ThreadPool pool(2);
  for (const std::string_view name : {"qwen3-moe", "qwen2-moe"}) {
    const Golden golden = golden_named(name);
    for (const WeightFormat& format : kFormats) {
      const CpuModelOptions options = options_for(format);
      const auto model = load_tiny(golden, options, pool, DType::kFloat32);
      MemoryPlanOptions plan_options;
      plan_options.weight_dtype = format.dtype;
      plan_options.quantization = format.quantization;
      plan_options.max_num_batched_tokens = options.max_num_batched_tokens;
      plan_options.max_num_seqs = options.max_num_logits;
      plan_options.max_model_len = options.max_model_len;
      plan_options.num_threads = 2;
      const MemoryPlan plan = *plan_memory(golden.config, plan_options);
      const int64_t qkv_rows = golden.config.q_size() + 2 * golden.config.kv_size();
      const int64_t bias_bytes =
          golden.config.attention_bias
              ? golden.config.num_layers * round_up(qkv_rows, int64_t{16}) * 4
              : 0;
      EXPECT_EQ(
          static_cast<int64_t>(model->num_weight_bytes()),
          plan.weights.total() - plan.weights.norms - bias_bytes
      ) << name;
      const WorkspaceBytes bytes = CpuModel::workspace_bytes(golden.config, options, 2);
      EXPECT_EQ(
          static_cast<int64_t>(bytes.total()), plan.activations.total() - plan.activations.rope
      ) << name;
      EXPECT_GT(model->num_expert_weight_bytes(), 0U);
      EXPECT_LT(
          model->num_expert_weight_bytes() + model->num_step_weight_bytes(),
          model->num_weight_bytes() + 1
      );
    }
  }
}

class CpuModelDeathTest : public testing::Test {
 protected:
  // What forward() says of a batch of five tokens that `spoil` changed.
  void expect_refusal(void (*spoil)(ForwardBatch&), const char* message) {
    ThreadPool pool(1);
    const Golden golden = golden_named("llama-mha");
    const auto model =
        load_tiny(golden, options_for(DType::kFloat32, DType::kFloat32), pool, DType::kFloat32);
    const std::vector<std::vector<TokenId>> prompts = {{1, 2, 3, 4, 5}};
    std::vector<TestSequence> sequences = make_sequences(*model, prompts, 1);
    const std::vector<TestChunk> chunks = {{sequences.data(), 5}};
    ForwardBatch batch = make_batch(chunks, 16);
    spoil(batch);
    EXPECT_DEATH((void)model->forward(batch), message);
  }
};

TEST_F(CpuModelDeathTest, RefusesBatchesThatDoNotAgreeWithThemselves) {
  expect_refusal([](ForwardBatch& b) { b.token_ids[2] = 101; }, "a token of the vocabulary");
  expect_refusal([](ForwardBatch& b) { b.token_ids[2] = -2; }, "a token of the vocabulary");
  expect_refusal([](ForwardBatch& b) { b.token_ids[2] = kPendingToken; }, "somebody draws each");
  expect_refusal([](ForwardBatch& b) { b.draws.resize(4); }, "one draw, or none, for each row");
  expect_refusal([](ForwardBatch& b) { b.positions[1] = 4; }, "the last of their context");
  expect_refusal([](ForwardBatch& b) { b.slot_mapping[4] += 1; }, "where the block table says");
  expect_refusal([](ForwardBatch& b) { b.block_tables[0] = 120; }, "a block that exists");
  expect_refusal(
      [](ForwardBatch& b) { b.logit_rows[0].index = 5; }, "logits of a token of this batch"
  );
  expect_refusal([](ForwardBatch& b) { b.positions.pop_back(); }, "one position a token");
  expect_refusal([](ForwardBatch& b) { b.cu_seqlens[1] = 4; }, "the sequences cover the tokens");
}

TEST_F(CpuModelDeathTest, DrawsNothing) {
  expect_refusal([](ForwardBatch& b) { b.draws.resize(5); }, "draws nothing");
  const auto wait_for_token = [](ForwardBatch& b) {
    b.token_ids[2] = kPendingToken;
    b.pending = {{.token = 2, .row = 0}};
  };
  expect_refusal(wait_for_token, "draws nothing");
}

// Two entries that wait and one name twice, as well as a name of a token that is known.
TEST_F(CpuModelDeathTest, RefusesPendingTokensThatDoNotAgree) {
  const auto name_twice = [](ForwardBatch& b) {
    b.token_ids[1] = b.token_ids[2] = kPendingToken;
    b.pending = {{.token = 2, .row = 0}, {.token = 2, .row = 1}};
  };
  expect_refusal(name_twice, "each token is pending once");
  const auto name_known = [](ForwardBatch& b) {
    b.token_ids[1] = kPendingToken;
    b.pending = {{.token = 2, .row = 0}};
  };
  expect_refusal(name_known, "a token that is not known yet is pending");
}

}  // namespace
}  // namespace millrace
