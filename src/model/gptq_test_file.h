// A small model as GPTQ's tools quantize and write it, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/test_files.h"
#include "model/model_test_data.h"

namespace millrace {

inline constexpr int64_t kGptqGroup = 64;

// How groups lie along the inputs.
enum class GroupOrder { kNeighbours, kAny };

// config.json of tiny_config(ModelFamily::kQwen2).
inline constexpr const char* kGptqConfig = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 52,
  "intermediate_size": 75, "num_hidden_layers": 3, "num_attention_heads": 6,
  "num_key_value_heads": 2, "head_dim": 10, "vocab_size": 103, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": true,
                          "sym": false, "checkpoint_format": "gptq_v2"}})";

// The values of the tensors, and their file.
class GptqFile : public WeightSource {
 public:
  GptqFile(const ModelConfig& config, GroupOrder order) : order_(order), plain_(config, 7) {
    for (const TensorInfo& tensor : plain_.tensors()) {
      std::vector<float>& values = values_[tensor.name];
      values.resize(static_cast<size_t>(tensor.num_rows() * tensor.row_length()));
      plain_.read_rows(tensor, 0, tensor.num_rows(), values);
      if (tensor.shape.size() == 2 && tensor.name.find(".layers.") != std::string::npos) {
        add_matrix(tensor, values);
      } else {
        add(tensor.name, "F32", tensor.shape, bytes_of(values));
      }
    }
  }

  Result<void> write(const std::string& path) const {
    std::vector<TensorToWrite> tensors;
    for (const Stored& tensor : stored_) {
      const std::span<const std::byte> bytes = testing_files::as_bytes(tensor.bytes);
      tensors.push_back(
          {.name = tensor.name,
           .dtype = tensor.dtype,
           .shape = tensor.shape,
           .num_bytes = bytes.size(),
           .write = [bytes](const TensorToWrite::Put& put) { put(bytes); }}
      );
    }
    return write_safetensors(path, tensors);
  }

  std::span<const TensorInfo> tensors() const override { return plain_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return plain_.find(name); }
  void read_rows(const TensorInfo& tensor, int64_t begin, int64_t count, std::span<float> out)
      const override {
    const auto width = static_cast<size_t>(tensor.row_length());
    const std::span<const float> values = values_.at(tensor.name);
    const auto rows =
        values.subspan(static_cast<size_t>(begin) * width, static_cast<size_t>(count) * width);
    std::ranges::copy(rows, out.begin());
  }

 private:
  struct Stored {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };

  template <class T>
  static std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }

  void add(std::string name, std::string dtype, std::vector<int64_t> shape, std::string bytes) {
    stored_.push_back({std::move(name), std::move(dtype), std::move(shape), std::move(bytes)});
  }

  // Rounds `values` to 4 bits, with groups dealt to inputs as desc_act leaves them, or in order.
  void add_matrix(const TensorInfo& tensor, std::vector<float>& values) {
    const int64_t rows = tensor.shape[0];
    const int64_t columns = tensor.shape[1];
    const int64_t row_words = (rows + 7) / 8;
    const int64_t column_words = (columns + 7) / 8;
    const int64_t num_groups = (columns + kGptqGroup - 1) / kGptqGroup;
    const auto groups_below = static_cast<uint64_t>(num_groups);
    std::vector<uint32_t> codes(static_cast<size_t>(column_words * rows));
    std::vector<uint32_t> zeros(static_cast<size_t>(num_groups * row_words));
    std::vector<uint16_t> scales(static_cast<size_t>(num_groups * rows));
    std::vector<int32_t> groups;
    for (int64_t k = 0; k < columns; ++k) {
      const auto any = static_cast<int32_t>(rng_.below(groups_below));
      groups.push_back(order_ == GroupOrder::kAny ? any : static_cast<int32_t>(k / kGptqGroup));
    }
    for (int64_t n = 0; n < rows; ++n) {
      std::vector<uint32_t> zero(groups_below);
      std::vector<float> scale(groups_below);
      for (size_t g = 0; g < groups_below; ++g) {
        zero[g] = static_cast<uint32_t>(6 + rng_.below(5));
        const Float16 rounded = to_float16(0.04F * static_cast<float>(g + 1));
        scale[g] = to_float(rounded);
        scales[g * static_cast<size_t>(rows) + static_cast<size_t>(n)] = rounded.bits;
        zeros[g * static_cast<size_t>(row_words) + static_cast<size_t>(n / 8)] |=
            zero[g] << static_cast<unsigned>(n % 8 * 4);
      }
      for (int64_t k = 0; k < columns; ++k) {
        const auto g = static_cast<size_t>(groups[static_cast<size_t>(k)]);
        float& value = values[static_cast<size_t>(n * columns + k)];
        const float steps = std::round(value / scale[g]) + static_cast<float>(zero[g]);
        const auto code = static_cast<uint32_t>(std::clamp(steps, 0.0F, 15.0F));
        codes[static_cast<size_t>(k / 8 * rows + n)] |= code << static_cast<unsigned>(k % 8 * 4);
        value = (static_cast<float>(code) - static_cast<float>(zero[g])) * scale[g];
      }
    }
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    add(module + ".qweight", "I32", {column_words, rows}, bytes_of(codes));
    add(module + ".qzeros", "I32", {num_groups, row_words}, bytes_of(zeros));
    add(module + ".scales", "F16", {num_groups, rows}, bytes_of(scales));
    add(module + ".g_idx", "I32", {columns}, bytes_of(groups));
    if (plain_.find(module + ".bias") != nullptr) return;
    add(module + ".bias", "F32", {rows}, std::string(static_cast<size_t>(rows) * 4, '\0'));
  }

  GroupOrder order_;
  TinyWeights plain_;
  Rng rng_{3};
  std::map<std::string, std::vector<float>> values_;
  std::vector<Stored> stored_;
};

}  // namespace millrace
