#include "cuda/model/device_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/model/quantized_device_weights.h"
#include "cuda/model/weight_upload.h"
#include "model/weight_names.h"

namespace millrace::cuda {
namespace {

bool is_matrix(const TensorInfo& tensor) {
  return tensor.shape.size() >= 2;
}

size_t num_elements(const TensorInfo& tensor) {
  return static_cast<size_t>(tensor.num_rows() * tensor.row_length());
}

size_t num_packed(const TensorInfo& tensor) {
  return num_weight_elements(
      static_cast<size_t>(tensor.num_rows()), static_cast<size_t>(tensor.row_length())
  );
}

// Copies tensors whose names and shapes were checked into pieces of the arena.
class Placement {
 public:
  Placement(
      const WeightSource& source,
      DeviceArena& memory,
      WeightUpload& upload,
      size_t num_tensors,
      const LoadProgress& progress
  )
      : source_(source),
        memory_(memory),
        upload_(upload),
        num_tensors_(num_tensors),
        progress_(progress) {}

  // Tensors one below the other.
  DeviceMatrix matrix(const std::vector<std::string>& names) {
    const DeviceMatrix matrix = take_matrix(names, LinearEpilogue::kStore);
    size_t first_row = 0;
    for (const std::string& name : names) {
      pack(name, matrix, RowPlaces::kFollowing, first_row);
      first_row += static_cast<size_t>(find(name).num_rows());
    }
    return matrix;
  }

  // Of kSiluMul.
  DeviceMatrix gate_up(const std::string& gate, const std::string& up) {
    const DeviceMatrix matrix = take_matrix({gate, up}, LinearEpilogue::kSiluMul);
    pack(gate, matrix, RowPlaces::kGate, 0);
    pack(up, matrix, RowPlaces::kUp, 0);
    return matrix;
  }

  const float* vector(const std::vector<std::string>& names) {
    auto* const place = memory_.take<float>(num_elements_of(names));
    float* to = place;
    for (const std::string& name : names) {
      const TensorInfo& tensor = find(name);
      upload_.copy_as_float(tensor, to);
      to += num_elements(tensor);
      count_tensor();
    }
    return place;
  }

 private:
  // Memory for all rows, zeros.
  DeviceMatrix take_matrix(const std::vector<std::string>& names, LinearEpilogue epilogue) {
    const auto num_inputs = static_cast<size_t>(find(names.front()).row_length());
    const size_t num_rows = num_elements_of(names) / num_inputs;
    const size_t size =
        num_weight_elements(num_linear_panels(num_rows, epilogue) * kTileRows, num_inputs);
    auto* const place = memory_.take<uint16_t>(size);
    upload_.clear(place, size);
    return {.data = place, .num_rows = num_rows, .num_inputs = num_inputs};
  }
  void pack(
      const std::string& name, const DeviceMatrix& matrix, RowPlaces places, size_t first_row
  ) {
    auto* const packed = const_cast<uint16_t*>(static_cast<const uint16_t*>(matrix.data));
    upload_.pack_as_bfloat16(
        find(name), {.packed = packed, .places = places, .first_row = first_row}
    );
    count_tensor();
  }

  const TensorInfo& find(const std::string& name) const {
    const TensorInfo* const tensor = source_.find(name);
    CHECK(tensor != nullptr, "the tensor is among those that were checked");
    return *tensor;
  }
  size_t num_elements_of(const std::vector<std::string>& names) const {
    size_t count = 0;
    for (const std::string& name : names) count += num_elements(find(name));
    return count;
  }
  void count_tensor() {
    ++num_tensors_done_;
    if (progress_) progress_(num_tensors_done_, num_tensors_);
  }

  const WeightSource& source_;
  DeviceArena& memory_;
  WeightUpload& upload_;
  size_t num_tensors_;
  const LoadProgress& progress_;
  size_t num_tensors_done_ = 0;
};

DeviceLayer place_layer(const ModelConfig& config, size_t index, Placement& placement) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const std::vector<std::string> qkv = {
      attention + "q_proj.", attention + "k_proj.", attention + "v_proj."};
  const auto with = [](std::vector<std::string> names, const char* end) {
    for (std::string& name : names) name += end;
    return names;
  };
  DeviceLayer layer;
  layer.attention_norm = placement.vector({prefix + "input_layernorm.weight"});
  layer.qkv = placement.matrix(with(qkv, "weight"));
  if (config.attention_bias) layer.qkv.bias = placement.vector(with(qkv, "bias"));
  if (config.qk_norm) {
    layer.q_norm = placement.vector({attention + "q_norm.weight"});
    layer.k_norm = placement.vector({attention + "k_norm.weight"});
  }
  layer.attention_out = placement.matrix({attention + "o_proj.weight"});
  if (config.attention_out_bias) {
    layer.attention_out.bias = placement.vector({attention + "o_proj.bias"});
  }
  layer.mlp_norm = placement.vector({prefix + "post_attention_layernorm.weight"});
  layer.gate_up = placement.gate_up(mlp + "gate_proj.weight", mlp + "up_proj.weight");
  layer.down = placement.matrix({mlp + "down_proj.weight"});
  if (config.mlp_bias) {
    layer.gate_up.bias = placement.vector({mlp + "gate_proj.bias", mlp + "up_proj.bias"});
    layer.down.bias = placement.vector({mlp + "down_proj.bias"});
  }
  return layer;
}

}  // namespace

Result<std::optional<QuantizedFormat>> device_quantization(
    const ModelConfig& config, std::optional<QuantizedFormat> asked
) {
  const std::optional<QuantizedFormat> stored = config.stored_quantization;
  if (!asked || !stored || *asked == *stored) return asked ? asked : stored;
  return invalid_argument(
      fmt::format("the weights are stored as {}, not {}", name_of(*stored), name_of(*asked)),
      "--quantization"
  );
}

// An upper bound: tensors that lie one below the other, or in turn, take less than one by one, as
// each is padded to whole panels here.
size_t device_weight_bytes(const ModelConfig& config, std::optional<QuantizedFormat> quantization) {
  if (quantization) return quantized_device_weight_bytes(config, *quantization);
  size_t num_bytes = 0;
  for (const TensorInfo& tensor : expected_tensors(config)) {
    num_bytes += is_matrix(tensor) ? DeviceArena::piece_bytes<uint16_t>(num_packed(tensor))
                                   : DeviceArena::piece_bytes<float>(num_elements(tensor));
  }
  return num_bytes;
}

Result<DeviceWeights> load_device_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const DeviceWeightOptions& options,
    StreamHandle stream,
    ThreadPool& pool
) {
  CHECK(!config.moe, "a dense model");
  if (options.quantization) {
    return load_quantized_device_weights(config, source, options, stream, pool);
  }
  if (Result<void> checked = check_tensors(config, source); !checked) return checked.error();
  const std::vector<TensorInfo> tensors = expected_tensors(config);
  int64_t row_length_max = 0;
  for (const TensorInfo& tensor : tensors) {
    row_length_max = std::max(row_length_max, tensor.row_length());
  }
  Result<WeightUpload> upload =
      WeightUpload::create(source, stream, pool, static_cast<size_t>(row_length_max));
  if (!upload) return upload.error();
  DeviceWeights weights;
  Result<DeviceArena> memory = DeviceArena::allocate(device_weight_bytes(config, {}));
  if (!memory) return memory.error();
  weights.memory = *std::move(memory);

  Placement placement(source, weights.memory, *upload, tensors.size(), options.progress);
  const DeviceMatrix embedding = placement.matrix({"model.embed_tokens.weight"});
  weights.embedding = static_cast<const uint16_t*>(embedding.data);
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    weights.layers.push_back(place_layer(config, i, placement));
  }
  weights.final_norm = placement.vector({"model.norm.weight"});
  weights.lm_head = config.tie_word_embeddings ? embedding : placement.matrix({"lm_head.weight"});
  upload->wait();
  return weights;
}

}  // namespace millrace::cuda
