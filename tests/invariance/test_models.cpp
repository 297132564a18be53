#include "test_models.h"

#include <fmt/format.h>

#include "checkpoint/checkpoint.h"
#include "model/generation_defaults.h"
#include "model/model_test_data.h"
#include "server/local_model.h"

namespace millrace {
namespace {

// A sanitizer makes the scalar references take nineteen twentieths of the time, and finds in them
// what the tests of kernels show it too: these mixes are compared with references where it is not.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kWithReferences = false;
#else
constexpr bool kWithReferences = true;
#endif

// A model and the threads it borrows.
struct Loaded {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<CpuModel> model;
};

std::shared_ptr<CpuModel> load_model(
    const ModelConfig& config,
    const WeightSource& weights,
    const WeightFormat& format,
    const ModelSetup& setup
) {
  auto loaded = std::make_shared<Loaded>();
  loaded->threads = std::make_unique<ThreadPool>(setup.num_threads);
  const CpuModelOptions options{
      .dtype = format.dtype,
      .quantization = format.quantization,
      .kv_dtype = format.dtype,
      .block_size = setup.block_size,
      .num_blocks = kPoolTokensMax / setup.block_size,
      .max_model_len = kModelLenMax,
      .max_num_batched_tokens = kModelLenMax,
      .max_num_logits = kModelLenMax,
      .num_hidden_slots = kPoolTokensMax / setup.block_size,
      .isa = setup.isa,
  };
  auto model = CpuModel::load(config, weights, options, *loaded->threads);
  CHECK(model.ok(), model.error().message);
  loaded->model = *std::move(model);
  return {loaded, loaded->model.get()};
}

class TinyModel final : public TestModel {
 public:
  TinyModel(ModelFamily family, const WeightFormat& format)
      : config_(tiny_config(family)), format_(format), weights_(config_, 77) {}

  std::string name() const override {
    return fmt::format(
        "tiny {} in {}",
        name_of(config_.family),
        format_.quantization ? name_of(*format_.quantization) : name_of(format_.dtype)
    );
  }
  int64_t vocab_size() const override { return config_.vocab_size; }
  std::vector<TokenId> eos_token_ids() const override { return {0, 5}; }
  std::vector<ModelSetup> setups() const override {
    std::vector<ModelSetup> setups;
    for (const int32_t block_size : {16, 32, 48}) {
      for (const size_t num_threads : {1U, 2U, 3U}) {
        setups.push_back({.block_size = block_size, .num_threads = num_threads});
      }
      for (const Isa isa : supported_isas()) {
        if (!kWithReferences && is_reference(isa)) continue;
        // AMX has bits of its own where the matrices or the KV cache are bfloat16, or matrices int8
        // (docs/decisions/0020).
        const bool has_own_bits = format_.dtype == DType::kBFloat16 || format_.quantization;
        if (has_own_bits && reference_of(isa) != reference_of(best_isa())) continue;
        setups.push_back({.block_size = block_size, .num_threads = 1, .isa = isa});
      }
    }
    return setups;
  }
  std::shared_ptr<CpuModel> load(const ModelSetup& setup) override {
    return load_model(config_, weights_, format_, setup);
  }

 private:
  ModelConfig config_;
  WeightFormat format_;
  TinyWeights weights_;
};

class RealModel final : public TestModel {
 public:
  explicit RealModel(const std::string& path) : path_(path) {
    Result<Checkpoint> checkpoint = open_checkpoint(path);
    CHECK(checkpoint.ok(), checkpoint.error().message);
    checkpoint_ = *std::move(checkpoint);
    config_ = *parse_model_config(checkpoint_.config);
  }

  std::string name() const override { return path_; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  std::vector<TokenId> eos_token_ids() const override { return config_.eos_token_ids; }
  std::vector<ModelSetup> setups() const override {
    return {
        {.block_size = 16, .num_threads = 1},
        {.block_size = 32, .num_threads = 2},
    };
  }
  std::shared_ptr<CpuModel> load(const ModelSetup& setup) override {
    std::shared_ptr<CpuModel>& model = loaded_[setup];
    if (model == nullptr) {
      const WeightFormat format = {automatic_dtype(config_, checkpoint_)};
      model = load_model(config_, *checkpoint_.weights, format, setup);
    }
    return model;
  }

 private:
  std::string path_;
  Checkpoint checkpoint_;
  ModelConfig config_;
  std::map<ModelSetup, std::shared_ptr<CpuModel>> loaded_;
};

}  // namespace

std::unique_ptr<TestModel> make_tiny_model(ModelFamily family, const WeightFormat& format) {
  return std::make_unique<TinyModel>(family, format);
}

std::unique_ptr<TestModel> make_real_model(const std::string& path) {
  return std::make_unique<RealModel>(path);
}

}  // namespace millrace
