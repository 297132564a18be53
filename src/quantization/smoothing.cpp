#include "quantization/smoothing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "base/check.h"
#include "base/math.h"
#include "checkpoint/tensor_index.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";
// An input with less than this part of the average is treated as if it had that much: inputs that
// the texts never used must not take all of the range.
constexpr double kLeastPart = 1e-4;

std::string layer_name(size_t layer, std::string_view rest) {
  return fmt::format("model.layers.{}.{}", layer, rest);
}

// Sums of squares of each column of a tensor.
std::vector<double> column_squares(
    const WeightSource& source, const std::string& name, ThreadPool& pool
) {
  const TensorInfo* const tensor = source.find(name);
  CHECK(tensor != nullptr, "the tensor is among those that were checked");
  const auto width = static_cast<size_t>(tensor->row_length());
  // A fixed number of parts, so that sums do not depend on the number of threads.
  constexpr size_t kNumParts = 16;
  const auto num_rows = static_cast<size_t>(tensor->num_rows());
  std::vector<std::vector<double>> parts(kNumParts, std::vector<double>(width));
  pool.parallel_for(kNumParts, [&](size_t begin, size_t end) {
    std::vector<float> row(width);
    for (size_t part = begin; part < end; ++part) {
      const size_t last = num_rows * (part + 1) / kNumParts;
      for (size_t r = num_rows * part / kNumParts; r < last; ++r) {
        source.read_rows(*tensor, static_cast<int64_t>(r), 1, row);
        for (size_t i = 0; i < width; ++i) {
          parts[part][i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
        }
      }
    }
  });
  std::vector<double> sums(width);
  for (const std::vector<double>& part : parts) {
    for (size_t i = 0; i < width; ++i) sums[i] += part[i];
  }
  return sums;
}

std::vector<double> input_squares(const BlockMoments& moments, size_t num_inputs) {
  std::vector<double> squares(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) squares[i] = static_cast<double>(moments.square(i));
  return squares;
}

// What is no number is treated as if it were not there.
void raise_to_least(std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::isfinite(value) ? value : 0.0;
  const double least = sum / static_cast<double>(values.size()) * kLeastPart;
  for (double& value : values) value = std::isfinite(value) ? std::max(value, least) : least;
}

// s with s^2 = sqrt(E x^2 / E w^2), scaled so that their geometric mean is 1.
std::vector<float> divisors(std::vector<double> inputs, std::vector<double> weights) {
  raise_to_least(inputs);
  raise_to_least(weights);
  std::vector<float> result(inputs.size(), 1.0F);
  double sum_of_logs = 0.0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(inputs[i] > 0.0) || !(weights[i] > 0.0)) return result;
    sum_of_logs += std::log(inputs[i] / weights[i]) / 4.0;
  }
  const double mean = sum_of_logs / static_cast<double>(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    result[i] = static_cast<float>(std::exp(std::log(inputs[i] / weights[i]) / 4.0 - mean));
  }
  return result;
}

// Of the inputs of attention_out, those that come from the same row of v.
std::vector<double> sum_over_query_heads(
    const ModelConfig& config, const std::vector<double>& values
) {
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto num_shared = static_cast<size_t>(config.num_heads / config.num_kv_heads);
  std::vector<double> sums(static_cast<size_t>(config.kv_size()));
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i / head_dim / num_shared * head_dim + i % head_dim] += values[i];
  }
  return sums;
}

std::vector<double> sum_of(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

void round_to(DType dtype, std::span<float> values) {
  if (dtype == DType::kBFloat16) {
    for (float& value : values) value = to_float(to_bfloat16(value));
  } else if (dtype == DType::kFloat16) {
    for (float& value : values) value = to_float(to_float16(value));
  }
}

// How a tensor is changed: element (row, column) times columns[column] / rows[row]. Empty: 1.
struct Change {
  std::vector<float> rows;
  std::vector<float> columns;
};

class SmoothedSource : public WeightSource {
 public:
  SmoothedSource(
      const WeightSource& source,
      TensorIndex index,
      std::map<std::string, Change> changes,
      DType dtype
  )
      : source_(source), index_(std::move(index)), changes_(std::move(changes)), dtype_(dtype) {}

  std::span<const TensorInfo> tensors() const override { return index_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    const TensorInfo* stored = source_.find(tensor.name);
    if (stored == nullptr) stored = source_.find(kEmbedding);  // a head that was tied to it
    source_.read_rows(*stored, row_begin, num_rows, out);
    if (tensor.shape.size() >= 2) round_to(dtype_, out);
    const auto found = changes_.find(tensor.name);
    if (found == changes_.end()) return;
    const Change& change = found->second;
    const auto width = static_cast<size_t>(tensor.row_length());
    for (size_t i = 0; i < out.size(); ++i) {
      if (!change.columns.empty()) out[i] *= change.columns[i % width];
      // A vector is one row; its elements are what makes the rows of the next matrix's inputs.
      const size_t row = tensor.shape.size() < 2 ? i : static_cast<size_t>(row_begin) + i / width;
      if (!change.rows.empty()) out[i] /= change.rows[row];
    }
  }

 private:
  const WeightSource& source_;
  TensorIndex index_;
  std::map<std::string, Change> changes_;
  DType dtype_;
};

std::map<std::string, Change> changes_of(const ModelConfig& config, const Smoothing& smoothing) {
  std::map<std::string, Change> changes;
  for (size_t i = 0; i < smoothing.layers.size(); ++i) {
    const LayerSmoothing& layer = smoothing.layers[i];
    changes[layer_name(i, "input_layernorm.weight")].rows = layer.qkv;
    for (const char* const name : {"q_proj", "k_proj", "v_proj"}) {
      changes[layer_name(i, fmt::format("self_attn.{}.weight", name))].columns = layer.qkv;
    }
    changes[layer_name(i, "self_attn.v_proj.weight")].rows = layer.value;
    changes[layer_name(i, "self_attn.v_proj.bias")].rows = layer.value;
    changes[layer_name(i, "self_attn.o_proj.weight")].columns =
        spread_to_query_heads(config, layer.value);
    changes[layer_name(i, "post_attention_layernorm.weight")].rows = layer.gate_up;
    for (const char* const name : {"gate_proj", "up_proj"}) {
      changes[layer_name(i, fmt::format("mlp.{}.weight", name))].columns = layer.gate_up;
    }
    changes[layer_name(i, "mlp.up_proj.weight")].rows = layer.down;
    changes[layer_name(i, "mlp.up_proj.bias")].rows = layer.down;
    changes[layer_name(i, "mlp.down_proj.weight")].columns = layer.down;
  }
  changes["model.norm.weight"].rows = smoothing.head;
  changes[kHead].columns = smoothing.head;
  return changes;
}

}  // namespace

std::vector<float> spread_to_query_heads(
    const ModelConfig& config, const std::vector<float>& values
) {
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto num_shared = static_cast<size_t>(config.num_heads / config.num_kv_heads);
  std::vector<float> result(static_cast<size_t>(config.q_size()));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = values[i / head_dim / num_shared * head_dim + i % head_dim];
  }
  return result;
}

Smoothing choose_smoothing(
    const ModelConfig& config,
    const WeightSource& source,
    const InputMoments& moments,
    ThreadPool& pool
) {
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto weights = [&](size_t layer, std::string_view name) {
    return column_squares(source, layer_name(layer, name), pool);
  };
  Smoothing smoothing;
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    const auto inputs = [&](MatrixKind kind, int64_t size) {
      return input_squares(moments.at({kind, i}), static_cast<size_t>(size));
    };
    LayerSmoothing& layer = smoothing.layers.emplace_back();
    std::vector<double> qkv = weights(i, "self_attn.q_proj.weight");
    qkv = sum_of(std::move(qkv), weights(i, "self_attn.k_proj.weight"));
    qkv = sum_of(std::move(qkv), weights(i, "self_attn.v_proj.weight"));
    layer.qkv = divisors(inputs(MatrixKind::kQkv, config.hidden_size), std::move(qkv));
    layer.value = divisors(
        sum_over_query_heads(config, inputs(MatrixKind::kAttentionOut, config.q_size())),
        sum_over_query_heads(config, weights(i, "self_attn.o_proj.weight"))
    );
    layer.gate_up = divisors(
        inputs(MatrixKind::kGateUp, config.hidden_size),
        sum_of(weights(i, "mlp.gate_proj.weight"), weights(i, "mlp.up_proj.weight"))
    );
    layer.down = divisors(
        inputs(MatrixKind::kDown, config.intermediate_size), weights(i, "mlp.down_proj.weight")
    );
  }
  const char* const head = config.tie_word_embeddings ? kEmbedding : kHead;
  smoothing.head = divisors(
      input_squares(moments.at({MatrixKind::kHead}), hidden), column_squares(source, head, pool)
  );
  return smoothing;
}

ModelConfig untied(const ModelConfig& config) {
  ModelConfig result = config;
  result.tie_word_embeddings = false;
  return result;
}

std::unique_ptr<WeightSource> smoothed_source(
    const ModelConfig& config, const WeightSource& source, const Smoothing& smoothing, DType dtype
) {
  Result<TensorIndex> index = TensorIndex::build(expected_tensors(untied(config)));
  CHECK(index.ok(), "no tensor stands twice in a model");
  return std::make_unique<SmoothedSource>(
      source, *std::move(index), changes_of(config, smoothing), dtype
  );
}

}  // namespace millrace
