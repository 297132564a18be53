#include "model/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = WeightMatrix::kPanelRows;
constexpr const char* kEmbedding = "model.embed_tokens.weight";

// Sizes of a vector and of a matrix.
struct MatrixShape {
  size_t num_rows;
  size_t num_columns;
};

// A tensor that is not quantized: [num_rows, columns of the matrix that it is a part of].
struct RowsPart {
  std::string name;
  size_t num_rows;
};

std::vector<RowsPart> router_parts(const MoeConfig& moe, size_t layer) {
  std::vector<RowsPart> parts;
  for (const std::string& name : router_names(moe, layer)) parts.push_back({name, 1});
  parts.front().num_rows = static_cast<size_t>(moe.num_experts);
  return parts;
}

// A gate_up and a down of `num_parts` networks, one below the other.
template <class Matrix, class Visitor>
void visit_feed_forward(
    const std::string& prefix,
    MatrixShape down,
    size_t num_parts,
    Matrix& gate_up_matrix,
    Matrix& down_matrix,
    Visitor& visit
) {
  const size_t gate_up_rows = num_parts * 2 * round_up(down.num_columns, kPanelRows);
  const size_t down_rows =
      num_parts == 1 ? down.num_rows : num_parts * round_up(down.num_rows, kPanelRows);
  visit.matrix(
      prefix + "gate_up_proj.panels", gate_up_matrix, MatrixShape{gate_up_rows, down.num_rows}
  );
  visit.matrix(prefix + "down_proj.panels", down_matrix, MatrixShape{down_rows, down.num_columns});
}

// The router and the experts of a layer, the shared one too.
template <class Layer, class Visitor>
void visit_experts(const ModelConfig& config, size_t index, Layer& layer, Visitor& visit) {
  const MoeConfig& moe = *config.moe;
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto num_experts = static_cast<size_t>(moe.num_experts);
  const auto shared_size = static_cast<size_t>(moe.shared_expert_intermediate_size);
  const std::string prefix = fmt::format("model.layers.{}.mlp.", index);
  auto& experts = *layer.experts;
  visit.rows(router_parts(moe, index), experts.router, hidden);
  visit_feed_forward(
      prefix + "experts.",
      {hidden, static_cast<size_t>(moe.expert_intermediate_size)},
      num_experts,
      experts.gate_up,
      experts.down,
      visit
  );
  if (shared_size == 0) return;
  visit_feed_forward(
      prefix + "shared_expert.", {hidden, shared_size}, 1, layer.gate_up, layer.down, visit
  );
}

// Calls visit.vector() or visit.matrix() for what is stored as it lies in memory, and visit.rows()
// for matrices that are not quantized. Weights: ModelWeights, const or not, with as many layers,
// and experts, as the configuration says.
template <class Weights, class Visitor>
void visit_parts(const ModelConfig& config, Weights& weights, Visitor& visit) {
  const auto vocab = static_cast<size_t>(config.vocab_size);
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto q_size = static_cast<size_t>(config.q_size());
  const auto intermediate = static_cast<size_t>(config.intermediate_size);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const size_t num_qkv = q_size + 2 * static_cast<size_t>(config.kv_size());
  const size_t num_gate_up = 2 * round_up(intermediate, kPanelRows);
  visit.rows({{kEmbedding, vocab}}, weights.embedding, hidden);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    auto& layer = weights.layers[i];
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const std::string attention = prefix + "self_attn.";
    visit.vector(prefix + "input_layernorm.weight", layer.attention_norm, hidden);
    visit.matrix(attention + "qkv_proj.panels", layer.qkv, MatrixShape{num_qkv, hidden});
    if (config.attention_bias) {
      visit.vector(attention + "qkv_proj.bias", layer.qkv_bias, round_up(num_qkv, kPanelRows));
    }
    if (config.qk_norm) {
      visit.vector(attention + "q_norm.weight", layer.q_norm, head_dim);
      visit.vector(attention + "k_norm.weight", layer.k_norm, head_dim);
    }
    visit.matrix(attention + "o_proj.panels", layer.attention_out, MatrixShape{hidden, q_size});
    if (config.attention_out_bias) {
      const size_t size = round_up(hidden, kPanelRows);
      visit.vector(attention + "o_proj.bias", layer.attention_out_bias, size);
    }
    visit.vector(prefix + "post_attention_layernorm.weight", layer.mlp_norm, hidden);
    if (config.has_experts(static_cast<int64_t>(i))) {
      visit_experts(config, i, layer, visit);
      continue;
    }
    visit_feed_forward(
        prefix + "mlp.", {hidden, intermediate}, 1, layer.gate_up, layer.down, visit
    );
    if (config.mlp_bias) {
      visit.vector(prefix + "mlp.gate_up_proj.bias", layer.gate_up_bias, num_gate_up);
      visit.vector(prefix + "mlp.down_proj.bias", layer.down_bias, round_up(hidden, kPanelRows));
    }
  }
  visit.vector("model.norm.weight", weights.final_norm, hidden);
  CHECK(weights.lm_head.has_value(), "quantized weights have a head of their own");
  visit.matrix("lm_head.panels", *weights.lm_head, MatrixShape{vocab, hidden});
}

// A row at a time, rounded to `dtype`.
void put_rows(
    const WeightSource& source, const TensorInfo& tensor, DType dtype, const TensorToWrite::Put& put
) {
  std::vector<float> row(static_cast<size_t>(tensor.row_length()));
  std::vector<uint16_t> halves(row.size());
  for (int64_t i = 0; i < tensor.num_rows(); ++i) {
    source.read_rows(tensor, i, 1, row);
    if (dtype == DType::kFloat32) {
      put(std::as_bytes(std::span(row)));
      continue;
    }
    for (size_t j = 0; j < row.size(); ++j) {
      halves[j] = dtype == DType::kBFloat16 ? to_bfloat16(row[j]).bits : to_float16(row[j]).bits;
    }
    put(std::as_bytes(std::span(halves)));
  }
}

TensorToWrite rows_to_write(const WeightSource& source, const std::string& name, DType dtype) {
  const TensorInfo* const tensor = source.find(name);
  CHECK(tensor != nullptr, "the tensor is among those that were checked");
  const size_t element = dtype == DType::kFloat32 ? sizeof(float) : sizeof(uint16_t);
  const char* const words[] = {"F32", "F16", "BF16"};
  return {
      .name = name,
      .dtype = words[static_cast<size_t>(dtype)],
      .shape = tensor->shape,
      .num_bytes = static_cast<size_t>(tensor->num_rows() * tensor->row_length()) * element,
      .write = [&source, tensor, dtype](const TensorToWrite::Put& put) {
        put_rows(source, *tensor, dtype, put);
      }};
}

class Lister {
 public:
  Lister(const WeightSource& source, DType dtype) : source_(source), dtype_(dtype) {}

  void rows(const std::vector<RowsPart>& parts, const WeightMatrix&, size_t) {
    for (const RowsPart& part : parts) {
      tensors_.push_back(rows_to_write(source_, part.name, dtype_));
    }
  }

  void vector(std::string name, const std::vector<float>& values, size_t size) {
    CHECK(values.size() == size, "a vector of the model's size");
    tensors_.push_back(
        {.name = std::move(name),
         .dtype = "F32",
         .shape = {static_cast<int64_t>(size)},
         .num_bytes = size * sizeof(float),
         .write = [&values](const TensorToWrite::Put& put
                  ) { put(std::as_bytes(std::span(values))); }}
    );
  }

  void matrix(std::string name, const WeightMatrix& matrix, MatrixShape shape) {
    const QuantizedMatrix* const quantized = matrix.quantized();
    CHECK(quantized != nullptr, "a quantized matrix");
    CHECK(
        matrix.num_rows() == shape.num_rows && matrix.num_columns() == shape.num_columns,
        "a matrix of the model's size"
    );
    tensors_.push_back(
        {.name = std::move(name),
         .dtype = "U8",
         .shape =
             {static_cast<int64_t>(quantized->num_panels()),
              static_cast<int64_t>(quantized->panel_bytes())},
         .num_bytes = quantized->num_bytes(),
         .write =
             [quantized](const TensorToWrite::Put& put) {
               for (size_t i = 0; i < quantized->num_panels(); ++i) put(quantized->panel(i));
             }}
    );
  }

  std::vector<TensorToWrite> take() && { return std::move(tensors_); }

 private:
  const WeightSource& source_;
  DType dtype_;
  std::vector<TensorToWrite> tensors_;
};

// Fills every part, or keeps the first error and passes over the rest.
class StoredReader {
 public:
  struct Options {
    const WeightFormat& format;
    size_t num_tensors;
    const LoadProgress& progress;
  };

  StoredReader(const WeightSource& source, ThreadPool& pool, const Options& options)
      : source_(source), pool_(pool), options_(options) {}

  void vector(const std::string& name, std::vector<float>& values, size_t size) {
    const TensorInfo* const tensor = find(name, {static_cast<int64_t>(size)}, "F32");
    if (tensor == nullptr) return;
    values.resize(size);
    source_.read_rows(*tensor, 0, 1, values);
    count_tensor();
  }

  void matrix(const std::string& name, WeightMatrix& matrix, MatrixShape shape) {
    if (error_) return;
    const bool is_head = name.starts_with("lm_head");
    const MatrixFormat format = is_head ? options_.format.of_head() : options_.format.of_layers();
    Result<WeightMatrix> allocated =
        WeightMatrix::allocate(format, shape.num_rows, shape.num_columns);
    if (!allocated) {
      error_ = allocated.error();
      return;
    }
    matrix = *std::move(allocated);
    QuantizedMatrix& quantized = *matrix.quantized();
    const std::vector<int64_t> stored = {
        static_cast<int64_t>(quantized.num_panels()),
        static_cast<int64_t>(quantized.panel_bytes())};
    const TensorInfo* const tensor = find(name, stored, "U8");
    if (tensor == nullptr) return;
    const std::span<const std::byte> bytes = source_.raw_bytes(*tensor);
    CHECK(bytes.size() == quantized.num_bytes(), "a source of files has a tensor's bytes");
    pool_.parallel_for(quantized.num_panels(), [&](size_t begin, size_t end) {
      for (size_t panel = begin; panel < end; ++panel) {
        const size_t size = quantized.panel_bytes();
        std::ranges::copy(bytes.subspan(panel * size, size), quantized.panel(panel).begin());
      }
    });
    count_tensor();
  }

  void rows(const std::vector<RowsPart>& parts, WeightMatrix& matrix, size_t num_columns) {
    std::vector<std::string> names;
    for (const auto& [name, num_rows] : parts) {
      const std::vector<int64_t> shape = {
          static_cast<int64_t>(num_rows), static_cast<int64_t>(num_columns)};
      if (find(name, shape, {}) == nullptr) return;
      names.push_back(name);
    }
    Result<WeightMatrix> loaded =
        load_matrix(source_, names, options_.format.of_embedding(), pool_);
    if (!loaded) {
      error_ = loaded.error();
      return;
    }
    matrix = *std::move(loaded);
    for (size_t i = 0; i < names.size(); ++i) count_tensor();
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  // nullptr after an error. `type`: the file's word; empty: any that can be read.
  const TensorInfo* find(
      const std::string& name, const std::vector<int64_t>& shape, std::string_view type
  ) {
    if (error_) return nullptr;
    const TensorInfo* const tensor = source_.find(name);
    if (tensor == nullptr) {
      error_ = not_found(fmt::format("tensor '{}' is missing", name), name);
      return nullptr;
    }
    const bool is_raw = type == "U8";
    if (tensor->shape != shape) {
      error_ = invalid_argument(
          fmt::format(
              "tensor '{}' has the shape {}, expected {}",
              name,
              format_shape(tensor->shape),
              format_shape(shape)
          ),
          name
      );
    } else if (is_raw && tensor->storage_name != type) {
      error_ = invalid_argument(fmt::format("tensor '{}' must be of dtype U8", name), name);
    } else if (!is_raw) {
      if (Result<void> readable = check_readable(*tensor); !readable) error_ = readable.error();
    }
    return error_ ? nullptr : tensor;
  }

  void count_tensor() {
    ++num_tensors_done_;
    if (options_.progress) options_.progress(num_tensors_done_, options_.num_tensors);
  }

  const WeightSource& source_;
  ThreadPool& pool_;
  Options options_;
  size_t num_tensors_done_ = 0;
  std::optional<Error> error_;
};

// Remembers the names alone.
struct NameLister {
  std::vector<std::string> names;
  void rows(const std::vector<RowsPart>& parts, const WeightMatrix&, size_t) {
    for (const RowsPart& part : parts) names.push_back(part.name);
  }
  void vector(const std::string& name, const std::vector<float>&, size_t) { names.push_back(name); }
  void matrix(const std::string& name, const WeightMatrix&, MatrixShape) { names.push_back(name); }
};

Result<void> check_names(std::vector<std::string> expected, const WeightSource& source) {
  std::ranges::sort(expected);
  for (const TensorInfo& tensor : source.tensors()) {
    if (std::ranges::binary_search(expected, tensor.name)) continue;
    return invalid_argument(
        fmt::format("tensor '{}' is none of this model's", tensor.name), tensor.name
    );
  }
  return {};
}

}  // namespace

std::vector<TensorToWrite> stored_tensors(
    const ModelConfig& config, const ModelWeights& weights, const WeightSource& source, DType dtype
) {
  Lister lister(source, dtype);
  visit_parts(config, weights, lister);
  return std::move(lister).take();
}

Result<ModelWeights> load_stored_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const WeightFormat& format,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  CHECK(
      format.quantization && config.stored_quantization == format.quantization->format,
      "as it is stored"
  );
  ModelWeights weights;
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (config.has_experts(i)) weights.layers[static_cast<size_t>(i)].experts.emplace();
  }
  weights.lm_head.emplace();
  NameLister names;
  visit_parts(config, weights, names);
  const size_t num_tensors = names.names.size();
  if (Result<void> known = check_names(std::move(names.names), source); !known)
    return known.error();

  StoredReader reader(
      source, pool, {.format = format, .num_tensors = num_tensors, .progress = progress}
  );
  visit_parts(config, weights, reader);
  if (reader.error()) return *reader.error();
  return weights;
}

}  // namespace millrace
