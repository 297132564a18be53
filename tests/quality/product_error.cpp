#include "product_error.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/input_rounding.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = WeightMatrix::kPanelRows;

const WeightMatrix& matrix_at(const ModelWeights& weights, const MatrixPlace& place) {
  switch (place.kind) {
    case MatrixKind::kQkv:
      return weights.layers[place.layer].qkv;
    case MatrixKind::kAttentionOut:
      return weights.layers[place.layer].attention_out;
    case MatrixKind::kGateUp:
      return weights.layers[place.layer].gate_up;
    case MatrixKind::kDown:
      return weights.layers[place.layer].down;
    case MatrixKind::kHead:
      break;
  }
  return weights.output_head();
}

std::vector<float> row_of(const WeightMatrix& weights, size_t row) {
  std::vector<float> values(weights.num_columns());
  if (weights.packed() != nullptr) {
    weights.packed()->copy_row(row, values);
  } else {
    weights.quantized()->copy_row(row, values);
  }
  return values;
}

// A norm's weights after smoothing over those before.
std::vector<float> ratios(std::span<const float> smoothed, std::span<const float> original) {
  std::vector<float> result(original.size(), 1.0F);
  for (size_t i = 0; i < original.size(); ++i) {
    if (original[i] != 0.0F) result[i] = smoothed[i] / original[i];
  }
  return result;
}

// By what smoothing multiplied a row: the number that makes `original`, whose inputs it divided by
// `inputs`, most like `rounded`. One number of hundreds, so what it hides of rounding is nothing.
float row_factor(
    std::span<const float> rounded, std::span<const float> original, std::span<const float> inputs
) {
  double product = 0.0;
  double square = 0.0;
  for (size_t i = 0; i < original.size(); ++i) {
    const double smoothed = static_cast<double>(original[i]) / static_cast<double>(inputs[i]);
    product += static_cast<double>(rounded[i]) * smoothed;
    square += smoothed * smoothed;
  }
  return square == 0.0 || product == 0.0 ? 1.0F : static_cast<float>(product / square);
}

bool is_up(size_t packed_row) {
  return packed_row / kPanelRows % 2 == 1;
}

// The scalings of a layer's four matrices. Norms say exactly what was folded into them; what was
// folded into rows of v and of up is read from the rows.
struct LayerScaling {
  ProductScaling qkv;
  ProductScaling attention_out;
  ProductScaling gate_up;
  ProductScaling down;
};

LayerScaling scaling_of(
    const ModelConfig& config, const LayerWeights& layer, const LayerWeights& exact
) {
  LayerScaling scaling;
  scaling.qkv.inputs = ratios(layer.attention_norm, exact.attention_norm);
  scaling.gate_up.inputs = ratios(layer.mlp_norm, exact.mlp_norm);

  const auto v_begin = static_cast<size_t>(config.q_size() + config.kv_size());
  scaling.qkv.outputs.assign(exact.qkv.num_rows(), 1.0F);
  for (size_t row = v_begin; row < exact.qkv.num_rows(); ++row) {
    scaling.qkv.outputs[row] =
        row_factor(row_of(layer.qkv, row), row_of(exact.qkv, row), scaling.qkv.inputs);
  }
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto heads_per_kv = static_cast<size_t>(config.num_heads / config.num_kv_heads);
  for (size_t input = 0; input < static_cast<size_t>(config.q_size()); ++input) {
    const size_t kv_head = input / head_dim / heads_per_kv;
    scaling.attention_out.inputs.push_back(
        scaling.qkv.outputs[v_begin + kv_head * head_dim + input % head_dim]
    );
  }

  scaling.gate_up.outputs.assign(exact.gate_up.num_rows(), 1.0F);
  for (size_t row = 0; row < exact.gate_up.num_rows(); ++row) {
    if (!is_up(row)) continue;
    const float factor =
        row_factor(row_of(layer.gate_up, row), row_of(exact.gate_up, row), scaling.gate_up.inputs);
    scaling.gate_up.outputs[row] = factor;
    if (scaling.down.inputs.size() < exact.down.num_columns()) {
      scaling.down.inputs.push_back(factor);
    }
  }
  return scaling;
}

bool is_smoothed(const ModelWeights& weights, const ModelWeights& exact) {
  return weights.final_norm != exact.final_norm;
}

WeightMatrix widened(const WeightMatrix& weights) {
  Result<WeightMatrix> wide =
      WeightMatrix::allocate(DType::kFloat32, weights.num_rows(), weights.num_columns());
  CHECK(wide.ok(), "memory");
  const size_t num_columns = weights.num_columns();
  for (size_t begin = 0; begin < weights.num_rows(); begin += kPanelRows) {
    const size_t count = std::min(kPanelRows, weights.num_rows() - begin);
    std::vector<float> rows(count * num_columns);
    for (size_t i = 0; i < count; ++i) {
      std::ranges::copy(
          row_of(weights, begin + i), rows.begin() + static_cast<long>(i * num_columns)
      );
    }
    wide->pack_panel(begin / kPanelRows, rows);
  }
  return *std::move(wide);
}

}  // namespace

void ProductErrors::add(
    std::string name, const ModelWeights& weights, const std::optional<Quantization>& quantization
) {
  Variant variant{
      .name = std::move(name),
      .weights = weights,
      .quantization = quantization,
      .scalings = {},
      .sums = {}};
  if (is_smoothed(weights, exact_)) {
    for (size_t index = 0; index < weights.layers.size(); ++index) {
      LayerScaling scaling = scaling_of(config_, weights.layers[index], exact_.layers[index]);
      variant.scalings[{MatrixKind::kQkv, index}] = std::move(scaling.qkv);
      variant.scalings[{MatrixKind::kAttentionOut, index}] = std::move(scaling.attention_out);
      variant.scalings[{MatrixKind::kGateUp, index}] = std::move(scaling.gate_up);
      variant.scalings[{MatrixKind::kDown, index}] = std::move(scaling.down);
    }
    variant.scalings[{MatrixKind::kHead, 0}].inputs = ratios(weights.final_norm, exact_.final_norm);
  }
  variants_.push_back(std::move(variant));
}

std::vector<float> ProductErrors::product(
    const WeightMatrix& weights, InputRounding rounding, ConstRows x
) {
  const WeightFormat formats[] = {
      {DType::kFloat32}, {DType::kBFloat16}, {DType::kBFloat16, QuantizedFormat::kInt8}};
  size_t num_bytes = 0;
  for (const WeightFormat& format : formats) {
    num_bytes = std::max(
        num_bytes, multiply_scratch_bytes(format, pool_.num_threads(), x.num_rows, x.num_columns)
    );
  }
  Result<Buffer> scratch = Buffer::allocate(num_bytes);
  CHECK(scratch.ok(), "memory");
  const size_t num_rows = weights.num_rows();
  std::vector<float> out(x.num_rows * num_rows);
  multiply(
      {best_isa(), pool_},
      {.x = x,
       .weights = weights,
       .bias = {},
       .out = {out.data(), x.num_rows, num_rows, num_rows},
       .rounding = rounding,
       .scratch = scratch->bytes()}
  );
  return out;
}

void ProductErrors::observe(const MatrixPlace& place, ConstRows x) {
  const WeightMatrix& exact_matrix = matrix_at(exact_, place);
  const std::vector<float> exact = product(exact_matrix, {}, x);
  const size_t num_outputs = exact_matrix.num_rows();
  for (Variant& variant : variants_) {
    const ProductScaling& scaling = variant.scalings[{place.kind, place.layer}];
    std::vector<float> inputs(x.num_rows * x.num_columns);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t column = i % x.num_columns;
      const float factor = scaling.inputs.empty() ? 1.0F : scaling.inputs[column];
      inputs[i] = x.row(i / x.num_columns)[column] * factor;
    }
    const std::vector<float> found = product(
        matrix_at(variant.weights, place),
        variant.quantization ? input_rounding(*variant.quantization, place.kind) : InputRounding{},
        {inputs.data(), x.num_rows, x.num_columns, x.num_columns}
    );
    Sum& sum = variant.sums[{place.kind, place.layer}];
    for (size_t token = 0; token < x.num_rows; ++token) {
      double difference = 0.0;
      double square = 0.0;
      for (size_t row = 0; row < num_outputs; ++row) {
        const size_t i = token * num_outputs + row;
        const float factor = scaling.outputs.empty() ? 1.0F : scaling.outputs[row];
        const double own = static_cast<double>(found[i]) / static_cast<double>(factor) -
                           static_cast<double>(exact[i]);
        difference += own * own;
        square += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
      }
      sum.squares += square == 0.0 ? 0.0 : difference / square;
    }
    sum.num_tokens += x.num_rows;
  }
}

double ProductErrors::error(size_t variant, const MatrixPlace& place) const {
  const Sum& sum = variants_[variant].sums.at({place.kind, place.layer});
  return std::sqrt(sum.squares / static_cast<double>(sum.num_tokens));
}

size_t ProductErrors::num_layers(MatrixKind kind) const {
  return kind == MatrixKind::kHead ? 1 : exact_.layers.size();
}

ModelWeights in_float32(const ModelWeights& weights) {
  ModelWeights wide;
  wide.embedding = widened(weights.embedding);
  if (weights.lm_head) wide.lm_head = widened(*weights.lm_head);
  wide.final_norm = weights.final_norm;
  for (const LayerWeights& layer : weights.layers) {
    LayerWeights& copy = wide.layers.emplace_back();
    copy.attention_norm = layer.attention_norm;
    copy.qkv = widened(layer.qkv);
    copy.attention_out = widened(layer.attention_out);
    copy.mlp_norm = layer.mlp_norm;
    copy.gate_up = widened(layer.gate_up);
    copy.down = widened(layer.down);
  }
  return wide;
}

}  // namespace millrace
