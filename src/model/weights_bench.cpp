// How fast a model's weights become what the operators read: widened from each storage type,
// rounded and packed to each format, on new memory. Four layers of Qwen2-0.5B and a ninth of its
// vocabulary, whose stored bytes lie in memory as those of a file in the page cache do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/rng.h"
#include "checkpoint/dequantize.h"
#include "model/weight_names.h"
#include "model/weights.h"

namespace millrace {
namespace {

ModelConfig qwen2_config() {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.hidden_size = 896;
  config.intermediate_size = 4864;
  config.num_layers = 4;
  config.num_heads = 14;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.vocab_size = 16384;
  config.max_position_embeddings = 32768;
  config.tie_word_embeddings = true;
  config.attention_bias = true;
  return config;
}

// Sums of four uniform numbers, near enough to normal; standard deviation 0.02.
float weight_at(uint64_t index) {
  double sum = 0.0;
  for (uint64_t i = 0; i < 4; ++i) sum += random_unit(1, index * 4 + i) - 0.5;
  return static_cast<float>(sum * 0.035);
}

void store_floats(StorageType storage, uint64_t first, std::span<std::byte> block) {
  const float value = weight_at(first);
  if (storage == StorageType::kF32) {
    std::memcpy(block.data(), &value, sizeof value);
    return;
  }
  const uint16_t half =
      storage == StorageType::kF16 ? to_float16(value).bits : to_bfloat16(value).bits;
  std::memcpy(block.data(), &half, sizeof half);
}

// Scales that make weights of such a size, then any quants.
void store_quants(StorageType storage, uint64_t first, std::span<std::byte> block) {
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<std::byte>(256.0 * random_unit(2, first * 64 + i));
  }
  const float scale = storage == StorageType::kQ8_0 ? 0.0005F : 0.008F;
  const uint16_t scales[2] = {to_float16(scale).bits, to_float16(-8.0F * scale).bits};
  std::memcpy(block.data(), scales, storage == StorageType::kQ4_1 ? 4 : 2);
}

// Tensors in memory. Matrices are copies of one stretch of made-up weights, laid one after another.
class MemorySource : public WeightSource {
 public:
  MemorySource(std::vector<TensorInfo> tensors, StorageType storage)
      : tensors_(std::move(tensors)), layout_(block_layout(storage)) {
    const std::vector<std::byte> made = make_stretch(storage);
    for (TensorInfo& tensor : tensors_) {
      if (tensor.shape.size() < 2) continue;
      tensor.storage = storage;
      begins_[tensor.name] = stored_.size();
      size_t rest = bytes_of(tensor.num_rows() * tensor.row_length());
      while (rest > 0) {
        const auto part = static_cast<ptrdiff_t>(std::min(rest, made.size()));
        stored_.insert(stored_.end(), made.begin(), made.begin() + part);
        rest -= static_cast<size_t>(part);
      }
    }
  }

  size_t num_bytes() const { return stored_.size(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    if (tensor.shape.size() < 2) {
      std::ranges::fill(out, 1.0F);
      return;
    }
    const size_t begin =
        begins_.find(tensor.name)->second + bytes_of(row_begin * tensor.row_length());
    const size_t size = bytes_of(num_rows * tensor.row_length());
    dequantize(tensor.storage, std::span(stored_).subspan(begin, size), out);
  }

 private:
  std::vector<std::byte> make_stretch(StorageType storage) const {
    constexpr size_t kWeights = 1 << 20;
    std::vector<std::byte> made(bytes_of(kWeights));
    for (size_t begin = 0; begin < made.size(); begin += layout_.block_bytes) {
      const std::span<std::byte> block = std::span(made).subspan(begin, layout_.block_bytes);
      const auto store = layout_.block_elements == 1 ? store_floats : store_quants;
      store(storage, begin / layout_.block_bytes, block);
    }
    return made;
  }
  size_t bytes_of(int64_t num_weights) const {
    return static_cast<size_t>(num_weights) / layout_.block_elements * layout_.block_bytes;
  }

  std::vector<TensorInfo> tensors_;
  BlockLayout layout_;
  std::vector<std::byte> stored_;
  std::map<std::string, size_t> begins_;
};

struct NamedStorage {
  const char* name;
  StorageType storage;
};
constexpr std::array kStorages = {
    NamedStorage{"bf16", StorageType::kBF16},
    NamedStorage{"f16", StorageType::kF16},
    NamedStorage{"f32", StorageType::kF32},
    NamedStorage{"q8_0", StorageType::kQ8_0},
    NamedStorage{"q4_0", StorageType::kQ4_0},
    NamedStorage{"q4_1", StorageType::kQ4_1},
};

struct NamedFormat {
  const char* name;
  WeightFormat format;
};
constexpr std::array kFormats = {
    NamedFormat{"bfloat16", {DType::kBFloat16, std::nullopt}},
    NamedFormat{"float16", {DType::kFloat16, std::nullopt}},
    NamedFormat{"int8", {DType::kBFloat16, QuantizedFormat::kInt8}},
    NamedFormat{"int4", {DType::kBFloat16, QuantizedFormat::kInt4}},
};

// Arguments: storage, format, threads. GB/s: of stored bytes.
void load_weights_once(benchmark::State& state) {
  const NamedStorage& storage = kStorages[static_cast<size_t>(state.range(0))];
  const NamedFormat& format = kFormats[static_cast<size_t>(state.range(1))];
  ThreadPool pool(static_cast<size_t>(state.range(2)));
  const ModelConfig config = qwen2_config();
  const MemorySource source(expected_tensors(config), storage.storage);
  for (auto _ : state) {
    const Result<ModelWeights> weights = load_weights(config, source, format.format, pool);
    if (!weights) return state.SkipWithError(weights.error().message.c_str());
  }
  const auto iterations = static_cast<double>(state.iterations());
  const auto rate = [&](double amount) {
    return benchmark::Counter(amount * iterations, benchmark::Counter::kIsRate);
  };
  state.counters["weights/s"] = rate(static_cast<double>(num_parameters(config)));
  state.counters["GB/s"] = rate(static_cast<double>(source.num_bytes()) * 1e-9);
  state.SetLabel(std::string(storage.name) + " to " + format.name);
}

void add_cases(benchmark::internal::Benchmark* bench) {
  for (int64_t storage = 0; storage < static_cast<int64_t>(kStorages.size()); ++storage) {
    for (int64_t format = 0; format < static_cast<int64_t>(kFormats.size()); ++format) {
      for (const int64_t num_threads : {1, 2}) bench->Args({storage, format, num_threads});
    }
  }
}

BENCHMARK(load_weights_once)
    ->ArgNames({"storage", "format", "threads"})
    ->Apply(add_cases)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
