#include "cuda/model/quantized_device_weights.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/model/weight_upload.h"
#include "model/stored_weights.h"

namespace millrace::cuda {
namespace {

constexpr size_t kPanelRows = QuantizedMatrix::kPanelRows;
constexpr const char* kEmbedding = "model.embed_tokens.weight";

// Rows and inputs of a model's matrices, as its tensors have them.
struct MatrixSize {
  size_t num_rows;
  size_t num_inputs;
};
struct MatrixSizes {
  MatrixSize qkv;
  MatrixSize attention_out;
  MatrixSize gate_up;
  MatrixSize down;
  MatrixSize head;

  explicit MatrixSizes(const ModelConfig& config)
      : qkv{static_cast<size_t>(config.q_size() + 2 * config.kv_size()), hidden_of(config)},
        attention_out{hidden_of(config), static_cast<size_t>(config.q_size())},
        gate_up{2 * static_cast<size_t>(config.intermediate_size), hidden_of(config)},
        down{hidden_of(config), static_cast<size_t>(config.intermediate_size)},
        head{static_cast<size_t>(config.head_size()), hidden_of(config)} {}

 private:
  static size_t hidden_of(const ModelConfig& config) {
    return static_cast<size_t>(config.hidden_size);
  }
};

// Of a matrix and what follows its products.
size_t code_bytes(QuantizedFormat format, MatrixSize size, LinearEpilogue epilogue) {
  return num_code_bytes(format, num_code_panels(size.num_rows, epilogue), size.num_inputs);
}

size_t matrix_bytes(
    QuantizedFormat format,
    MatrixSize size,
    bool has_bias,
    LinearEpilogue epilogue = LinearEpilogue::kStore
) {
  return DeviceArena::piece_bytes<std::byte>(code_bytes(format, size, epilogue)) +
         DeviceArena::piece_bytes<float>(has_bias ? size.num_rows : 0);
}

// The biases of gate and up, in the order of packed rows, as all of gate, then all of up.
std::vector<float> gate_then_up(const std::vector<float>& packed, size_t num_rows) {
  if (packed.empty()) return {};
  std::vector<float> result(num_rows);
  for (size_t i = 0; i < num_rows; ++i) {
    const size_t part = i / (num_rows / 2);
    const size_t row = i % (num_rows / 2);
    result[i] = packed[(row / kPanelRows * 2 + part) * kPanelRows + row % kPanelRows];
  }
  return result;
}

// Elements of the embedding, packed, which ranks that share the head all have whole.
size_t num_embedded(const ModelConfig& config) {
  return num_weight_elements(
      static_cast<size_t>(config.vocab_size), static_cast<size_t>(config.hidden_size)
  );
}

// Copies what is in host memory into pieces of the arena.
class QuantizedPlacement {
 public:
  QuantizedPlacement(DeviceArena& memory, WeightUpload& upload)
      : memory_(memory), upload_(upload) {}

  // Null for no values.
  const float* vector(std::span<const float> values) {
    if (values.empty()) return nullptr;
    auto* const place = memory_.take<float>(values.size());
    upload_.copy_bytes(std::as_bytes(values), place);
    return place;
  }

  // `bias`: of packed rows, or none.
  DeviceMatrix matrix(
      const WeightMatrix& matrix,
      MatrixSize size,
      const std::vector<float>& bias = {},
      LinearEpilogue epilogue = LinearEpilogue::kStore
  ) {
    const QuantizedMatrix* const quantized = matrix.quantized();
    CHECK(quantized != nullptr, "a quantized matrix");
    auto* const place = memory_.take<std::byte>(code_bytes(quantized->format(), size, epilogue));
    upload_.pack_quantized(*quantized, epilogue, place);
    const std::span<const float> of_rows(bias);
    return {
        .data = place,
        .format = quantized->format(),
        .num_rows = size.num_rows,
        .num_inputs = size.num_inputs,
        .bias = vector(of_rows.first(std::min(bias.size(), size.num_rows)))};
  }

 private:
  DeviceArena& memory_;
  WeightUpload& upload_;
};

DeviceLayer place_layer(
    const MatrixSizes& sizes, const LayerWeights& from, QuantizedPlacement& placement
) {
  DeviceLayer layer;
  layer.attention_norm = placement.vector(from.attention_norm);
  layer.qkv = placement.matrix(from.qkv, sizes.qkv, from.qkv_bias);
  layer.q_norm = placement.vector(from.q_norm);
  layer.k_norm = placement.vector(from.k_norm);
  layer.attention_out =
      placement.matrix(from.attention_out, sizes.attention_out, from.attention_out_bias);
  layer.mlp_norm = placement.vector(from.mlp_norm);
  layer.gate_up = placement.matrix(
      from.gate_up,
      sizes.gate_up,
      gate_then_up(from.gate_up_bias, sizes.gate_up.num_rows),
      LinearEpilogue::kSiluMul
  );
  layer.down = placement.matrix(from.down, sizes.down, from.down_bias);
  return layer;
}

// The embedding among them is not used: float16, which takes any weights as they come.
Result<ModelWeights> load_on_host(
    const ModelConfig& config,
    const WeightSource& source,
    const DeviceWeightOptions& options,
    ThreadPool& pool
) {
  const WeightFormat format = {DType::kFloat16, *options.quantization};
  return config.stored_quantization
             ? load_stored_weights(config, source, format, pool, options.progress)
             : load_weights(config, source, format, pool, options.progress);
}

}  // namespace

size_t quantized_device_weight_bytes(const ModelConfig& config, QuantizedFormat format) {
  const auto vector_bytes = [](int64_t size) {
    return DeviceArena::piece_bytes<float>(static_cast<size_t>(size));
  };
  const auto head = std::get<QuantizedFormat>(WeightFormat{.quantization = format}.of_head());
  const MatrixSizes sizes(config);
  size_t layer = 2 * vector_bytes(config.hidden_size);
  if (config.qk_norm) layer += 2 * vector_bytes(config.head_dim);
  layer += matrix_bytes(format, sizes.qkv, config.attention_bias);
  layer += matrix_bytes(format, sizes.attention_out, config.attention_out_bias);
  layer += matrix_bytes(format, sizes.gate_up, config.mlp_bias, LinearEpilogue::kSiluMul);
  layer += matrix_bytes(format, sizes.down, config.mlp_bias);
  return DeviceArena::piece_bytes<uint16_t>(num_embedded(config)) +
         static_cast<size_t>(config.num_layers) * layer + vector_bytes(config.hidden_size) +
         matrix_bytes(head, sizes.head, false);
}

Result<DeviceWeights> load_quantized_device_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const DeviceWeightOptions& options,
    StreamHandle stream,
    ThreadPool& pool
) {
  CHECK(options.quantization.has_value(), "quantized weights");
  const MatrixSizes sizes(config);
  // What may not fit comes first.
  DeviceWeights weights;
  Result<DeviceArena> memory =
      DeviceArena::allocate(quantized_device_weight_bytes(config, *options.quantization));
  if (!memory) return memory.error();
  weights.memory = *std::move(memory);
  Result<WeightUpload> upload = WeightUpload::create(source, stream, pool, sizes.head.num_inputs);
  if (!upload) return upload.error();
  const Result<ModelWeights> host = load_on_host(config, source, options, pool);
  if (!host) return host.error();

  QuantizedPlacement placement(weights.memory, *upload);
  const TensorInfo* const embedding = source.find(kEmbedding);
  CHECK(embedding != nullptr, "the tensor is among those that were checked");
  auto* const table = weights.memory.take<uint16_t>(num_embedded(config));
  upload->clear(table, num_embedded(config));
  upload->pack_as_bfloat16(*embedding, {.packed = table});
  weights.embedding = table;
  for (const LayerWeights& layer : host->layers) {
    weights.layers.push_back(place_layer(sizes, layer, placement));
  }
  weights.final_norm = placement.vector(host->final_norm);
  weights.lm_head = placement.matrix(host->output_head(), sizes.head);
  upload->wait();
  return weights;
}

}  // namespace millrace::cuda
