#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = WeightMatrix::kPanelRows;

std::string layer_prefix(size_t layer) {
  return fmt::format("model.layers.{}.", layer);
}

// A layer's experts, as their tensors are called.
struct ExpertNames {
  std::string prefix;  // of the layer's mixture
  size_t num_experts = 0;

  std::string tensor(size_t expert, const std::string& name) const {
    return fmt::format("{}experts.{}.{}", prefix, expert, name);
  }
  // For errors that are of all of them.
  std::string any(const std::string& name) const {
    return fmt::format("{}experts.*.{}", prefix, name);
  }
};

// Reads and packs tensors whose names and shapes were checked.
class Loader {
 public:
  struct Options {
    const WeightFormat& format;
    size_t num_tensors;
    const LoadProgress& progress;
    const FeedbackSource& feedback;
  };

  Loader(const WeightSource& source, ThreadPool& pool, const Options& options)
      : source_(source), pool_(pool), options_(options) {}

  std::vector<float> vector(const std::string& name) {
    const TensorInfo& tensor = find(name);
    std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
    source_.read_rows(tensor, 0, 1, values);
    count_tensor();
    return values;
  }

  Result<WeightMatrix> head(const std::string& name) {
    const MatrixFormat format = options_.format.of_head();
    return stacked({name}, format, feedback_of(format, {MatrixKind::kHead}));
  }

  // Matrices of the same width, one below the other.
  Result<WeightMatrix> stacked(const std::vector<std::string>& names, const MatrixPlace& place) {
    const MatrixFormat format = options_.format.of_layers();
    return stacked(names, format, feedback_of(format, place));
  }

  Result<WeightMatrix> stacked(const std::vector<std::string>& names, MatrixFormat format) {
    return stacked(names, format, std::nullopt);
  }

  // The same of embeddings and routers, which are not quantized.
  Result<WeightMatrix> unquantized(const std::vector<std::string>& names) {
    return stacked(names, options_.format.of_embedding());
  }

  // The matrix `name` of each expert, one below the other, and each from a panel of its own on.
  Result<WeightMatrix> expert_parts(const ExpertNames& experts, const std::string& name) {
    const TensorInfo& first = find(experts.tensor(0, name));
    const size_t num_panels = div_ceil(num_rows_of(first), kPanelRows);
    Result<WeightMatrix> packed = allocate_parts(experts.num_experts, num_panels, first);
    if (!packed) return packed;
    for (size_t expert = 0; expert < experts.num_experts; ++expert) {
      const PanelPlaces places = {.first = expert * num_panels, .step = 1};
      fill(*packed, {experts.tensor(expert, name)}, places, {});
    }
    return whole(*std::move(packed), {experts.any(name)});
  }

  // Two matrices of each expert, their panels in turn.
  Result<WeightMatrix> alternating_expert_parts(
      const ExpertNames& experts, const std::string& even, const std::string& odd
  ) {
    std::vector<Pair> pairs;
    for (size_t expert = 0; expert < experts.num_experts; ++expert) {
      pairs.push_back({experts.tensor(expert, even), experts.tensor(expert, odd)});
    }
    return alternating(pairs, {experts.any(even), experts.any(odd)}, {});
  }

  // Two matrices of the same shape, their panels in turn.
  Result<WeightMatrix> alternating(
      const std::string& even, const std::string& odd, const MatrixPlace& place
  ) {
    return alternating({{even, odd}}, {even, odd}, feedback_of(options_.format.of_layers(), place));
  }

 private:
  // Panel i of what is read becomes panel first + i * step of the matrix.
  struct PanelPlaces {
    size_t first;
    size_t step;
  };

  struct Pair {
    std::string even;
    std::string odd;
  };

  // Pairs of one shape, one below the other. `shown`: what an error calls them.
  Result<WeightMatrix> alternating(
      const std::vector<Pair>& pairs,
      const std::vector<std::string>& shown,
      const std::optional<ErrorFeedback>& feedback
  ) {
    const TensorInfo& first = find(pairs.front().even);
    const size_t num_panels = 2 * div_ceil(num_rows_of(first), kPanelRows);
    Result<WeightMatrix> packed = allocate_parts(pairs.size(), num_panels, first);
    if (!packed) return packed;
    for (size_t i = 0; i < pairs.size(); ++i) {
      const size_t begin = i * num_panels;
      fill(*packed, {pairs[i].even}, {.first = begin, .step = 2}, feedback);
      fill(*packed, {pairs[i].odd}, {.first = begin + 1, .step = 2}, feedback);
    }
    return whole(*std::move(packed), shown);
  }

  Result<WeightMatrix> allocate_parts(size_t num_parts, size_t part_panels, const TensorInfo& like)
      const {
    const size_t num_rows = num_parts * part_panels * kPanelRows;
    const auto num_columns = static_cast<size_t>(like.shape[1]);
    return WeightMatrix::allocate(options_.format.of_layers(), num_rows, num_columns);
  }

  std::optional<ErrorFeedback> feedback_of(MatrixFormat format, const MatrixPlace& place) const {
    const bool is_quantized = std::holds_alternative<QuantizedFormat>(format);
    if (!is_quantized || !options_.feedback) return std::nullopt;
    return options_.feedback(place);
  }

  Result<WeightMatrix> stacked(
      const std::vector<std::string>& names,
      MatrixFormat format,
      const std::optional<ErrorFeedback>& feedback
  ) {
    size_t num_rows = 0;
    for (const std::string& name : names) num_rows += num_rows_of(find(name));
    Result<WeightMatrix> packed =
        WeightMatrix::allocate(format, num_rows, num_columns_of(names[0]));
    if (!packed) return packed;
    fill(*packed, names, {.first = 0, .step = 1}, feedback);
    return whole(*std::move(packed), names);
  }

  void fill(
      WeightMatrix& packed,
      const std::vector<std::string>& names,
      PanelPlaces places,
      const std::optional<ErrorFeedback>& feedback
  ) {
    std::vector<const TensorInfo*> tensors;
    size_t num_rows = 0;
    for (const std::string& name : names) {
      tensors.push_back(&find(name));
      num_rows += num_rows_of(*tensors.back());
    }
    const QuantizedMatrix* const matrix = packed.quantized();
    const bool has_codes = matrix != nullptr && are_codes(matrix->format());
    const size_t num_inputs = has_codes ? scale_inputs(matrix->format()) : 0;
    pool_.parallel_for(div_ceil(num_rows, kPanelRows), [&](size_t begin, size_t end) {
      PanelRows rows = {.num_columns = packed.num_columns()};
      for (size_t panel = begin; panel < end; ++panel) {
        const size_t place = places.first + panel * places.step;
        const size_t first_row = panel * kPanelRows;
        if (num_inputs > 0) {
          const CodedRows codes = read_stacked_codes(tensors, first_row, num_inputs, rows);
          packed.quantized()->pack_codes(place, codes);
        } else if (feedback) {
          packed.pack_panel(place, read_stacked_rows(tensors, first_row, rows), *feedback);
        } else {
          packed.pack_panel(place, read_stacked_rows(tensors, first_row, rows));
        }
      }
    });
    for (size_t i = 0; i < names.size(); ++i) count_tensor();
  }

  // The matrix, if it took all weights of the tensors.
  static Result<WeightMatrix> whole(WeightMatrix matrix, const std::vector<std::string>& names) {
    if (matrix.holds_all_weights()) return matrix;
    const PackedMatrix& packed = *matrix.packed();
    std::string tensors = names.front();
    for (size_t i = 1; i < names.size(); ++i) tensors += ", " + names[i];
    return unsupported(
        fmt::format(
            "{}: {} of {} weights are of magnitudes that are rare in their rows, and bfloat16 "
            "matrices have room for {} of those; load them as float16 or float32, or quantized",
            tensors,
            packed.num_exceptions(),
            matrix.num_rows() * matrix.num_columns(),
            PackedMatrix::num_exceptions_max(matrix.num_rows(), matrix.num_columns())
        ),
        names.front()
    );
  }

  // What a panel is read into: [16, num_columns], and [16, scales of a row].
  struct PanelRows {
    size_t num_columns;
    std::vector<float> values = {};
    std::vector<uint8_t> codes = {};
    std::vector<float> scales = {};
    std::vector<float> bases = {};
  };

  // Up to 16 rows from `row` on of the tensors one below the other; returns how many there were.
  // read(tensor, row, count, place): `count` of them, of which the first is the panel's `place`-th.
  template <class Read>
  static size_t for_stacked_rows(
      std::span<const TensorInfo* const> tensors, size_t row, const Read& read
  ) {
    size_t count = 0;
    for (const TensorInfo* tensor : tensors) {
      const size_t num_rows = num_rows_of(*tensor);
      if (row >= num_rows) {
        row -= num_rows;
        continue;
      }
      const size_t taken = std::min(num_rows - row, kPanelRows - count);
      read(*tensor, row, taken, count);
      count += taken;
      row = 0;
      if (count == kPanelRows) break;
    }
    return count;
  }

  std::span<const float> read_stacked_rows(
      std::span<const TensorInfo* const> tensors, size_t row, PanelRows& to
  ) const {
    const size_t width = to.num_columns;
    to.values.resize(kPanelRows * width);
    const std::span<float> values = to.values;
    const auto read = [&](const TensorInfo& tensor, size_t first, size_t taken, size_t place) {
      source_.read_rows(
          tensor,
          static_cast<int64_t>(first),
          static_cast<int64_t>(taken),
          values.subspan(place * width, taken * width)
      );
    };
    return values.first(for_stacked_rows(tensors, row, read) * width);
  }

  CodedRows read_stacked_codes(
      std::span<const TensorInfo* const> tensors, size_t row, size_t num_inputs, PanelRows& to
  ) const {
    const size_t width = to.num_columns;
    const size_t num_scales = div_ceil(width, num_inputs);
    to.codes.resize(kPanelRows * width);
    to.scales.resize(kPanelRows * num_scales);
    to.bases.resize(kPanelRows * num_scales);
    const auto read = [&](const TensorInfo& tensor, size_t first, size_t taken, size_t place) {
      const StoredCodes part = {
          .codes = std::span(to.codes).subspan(place * width, taken * width),
          .scales = std::span(to.scales).subspan(place * num_scales, taken * num_scales),
          .bases = std::span(to.bases).subspan(place * num_scales, taken * num_scales),
          .num_inputs = num_inputs,
      };
      source_.read_codes(tensor, static_cast<int64_t>(first), static_cast<int64_t>(taken), part);
    };
    const size_t count = for_stacked_rows(tensors, row, read);
    return {
        .codes = std::span(to.codes).first(count * width),
        .scales = std::span(to.scales).first(count * num_scales),
        .bases = std::span(to.bases).first(count * num_scales),
    };
  }

  const TensorInfo& find(const std::string& name) const {
    const TensorInfo* tensor = source_.find(name);
    CHECK(tensor != nullptr, "the tensor is among those that were checked");
    return *tensor;
  }
  static size_t num_rows_of(const TensorInfo& tensor) {
    return static_cast<size_t>(tensor.shape[0]);
  }
  size_t num_columns_of(const std::string& name) const {
    return static_cast<size_t>(find(name).shape[1]);
  }
  void count_tensor() {
    ++num_tensors_done_;
    if (options_.progress) options_.progress(num_tensors_done_, options_.num_tensors);
  }

  const WeightSource& source_;
  ThreadPool& pool_;
  Options options_;
  size_t num_tensors_done_ = 0;
};

// Biases one below the other, padded to whole panels.
std::vector<float> stacked_bias(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> bias;
  for (const std::vector<float>& part : parts) bias.insert(bias.end(), part.begin(), part.end());
  bias.resize(round_up(bias.size(), kPanelRows));
  return bias;
}

// Two biases of the same size, their panels in turn.
std::vector<float> alternating_bias(std::span<const float> even, std::span<const float> odd) {
  std::vector<float> bias(2 * round_up(even.size(), kPanelRows));
  for (size_t i = 0; i < even.size(); ++i) {
    const size_t row = i / kPanelRows * 2 * kPanelRows + i % kPanelRows;
    bias[row] = even[i];
    bias[row + kPanelRows] = odd[i];
  }
  return bias;
}

Result<void> load_into(WeightMatrix& matrix, Result<WeightMatrix> loaded) {
  if (!loaded) return loaded.error();
  matrix = *std::move(loaded);
  return {};
}

Result<void> load_attention(
    const ModelConfig& config, size_t index, Loader& loader, LayerWeights& layer
) {
  const std::string prefix = layer_prefix(index);
  const std::string q = prefix + "self_attn.q_proj.";
  const std::string k = prefix + "self_attn.k_proj.";
  const std::string v = prefix + "self_attn.v_proj.";
  const std::string out = prefix + "self_attn.o_proj.";
  layer.attention_norm = loader.vector(prefix + "input_layernorm.weight");
  const std::vector<std::string> qkv = {q + "weight", k + "weight", v + "weight"};
  Result<WeightMatrix> stacked = loader.stacked(qkv, {MatrixKind::kQkv, index});
  if (Result<void> done = load_into(layer.qkv, std::move(stacked)); !done) return done;
  if (config.attention_bias) {
    layer.qkv_bias = stacked_bias(
        {loader.vector(q + "bias"), loader.vector(k + "bias"), loader.vector(v + "bias")}
    );
  }
  if (config.qk_norm) {
    layer.q_norm = loader.vector(prefix + "self_attn.q_norm.weight");
    layer.k_norm = loader.vector(prefix + "self_attn.k_norm.weight");
  }
  if (config.attention_out_bias) {
    layer.attention_out_bias = stacked_bias({loader.vector(out + "bias")});
  }
  const MatrixPlace place = {MatrixKind::kAttentionOut, index};
  return load_into(layer.attention_out, loader.stacked({out + "weight"}, place));
}

// `prefix`: of the network's tensors, which may be a shared expert's.
Result<void> load_feed_forward(
    const std::string& prefix, bool has_bias, size_t index, Loader& loader, LayerWeights& layer
) {
  const std::string gate = prefix + "gate_proj.";
  const std::string up = prefix + "up_proj.";
  const std::string down = prefix + "down_proj.";
  Result<WeightMatrix> gate_up =
      loader.alternating(gate + "weight", up + "weight", {MatrixKind::kGateUp, index});
  if (Result<void> done = load_into(layer.gate_up, std::move(gate_up)); !done) return done;
  if (has_bias) {
    layer.gate_up_bias = alternating_bias(loader.vector(gate + "bias"), loader.vector(up + "bias"));
    layer.down_bias = stacked_bias({loader.vector(down + "bias")});
  }
  return load_into(layer.down, loader.stacked({down + "weight"}, {MatrixKind::kDown, index}));
}

Result<void> load_experts(const MoeConfig& moe, size_t index, Loader& loader, LayerWeights& layer) {
  const std::string prefix = layer_prefix(index) + "mlp.";
  const bool has_shared = moe.shared_expert_intermediate_size > 0;
  ExpertWeights& experts = layer.experts.emplace();
  Result<void> done = load_into(experts.router, loader.unquantized(router_names(moe, index)));
  if (!done) return done;
  const ExpertNames names = {prefix, static_cast<size_t>(moe.num_experts)};
  done = load_into(
      experts.gate_up, loader.alternating_expert_parts(names, "gate_proj.weight", "up_proj.weight")
  );
  if (!done) return done;
  done = load_into(experts.down, loader.expert_parts(names, "down_proj.weight"));
  if (!done || !has_shared) return done;
  return load_feed_forward(prefix + "shared_expert.", false, index, loader, layer);
}

Result<void> load_mlp(
    const ModelConfig& config, size_t index, Loader& loader, LayerWeights& layer
) {
  const std::string prefix = layer_prefix(index);
  layer.mlp_norm = loader.vector(prefix + "post_attention_layernorm.weight");
  if (config.has_experts(static_cast<int64_t>(index))) {
    return load_experts(*config.moe, index, loader, layer);
  }
  return load_feed_forward(prefix + "mlp.", config.mlp_bias, index, loader, layer);
}

}  // namespace

size_t ModelWeights::num_bytes() const {
  size_t bytes = embedding.num_bytes() + (lm_head ? lm_head->num_bytes() : 0);
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.num_bytes() + layer.attention_out.num_bytes();
    bytes += layer.gate_up.num_bytes() + layer.down.num_bytes();
    if (!layer.experts) continue;
    const ExpertWeights& experts = *layer.experts;
    bytes += experts.router.num_bytes() + experts.gate_up.num_bytes() + experts.down.num_bytes();
  }
  return bytes;
}

size_t ModelWeights::num_step_bytes() const {
  size_t bytes = output_head().num_bytes_read();
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.num_bytes_read() + layer.attention_out.num_bytes_read();
    bytes += layer.gate_up.num_bytes_read() + layer.down.num_bytes_read();
    if (layer.experts) bytes += layer.experts->router.num_bytes_read();
  }
  return bytes;
}

size_t ModelWeights::num_expert_bytes() const {
  size_t bytes = 0;
  for (const LayerWeights& layer : layers) {
    if (!layer.experts) continue;
    bytes += layer.experts->gate_up.num_bytes_read() + layer.experts->down.num_bytes_read();
  }
  return bytes;
}

Result<ModelWeights> load_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const WeightFormat& format,
    ThreadPool& pool,
    const LoadProgress& progress,
    const FeedbackSource& feedback
) {
  if (Result<void> checked = check_tensors(config, source); !checked) return checked.error();
  if (format.quantization && are_codes(format.quantization->format)) {
    const Result<QuantizedFormat> stored = format_of_codes(config, source);
    if (!stored) return stored.error();
    const size_t num_inputs = scale_inputs(format.quantization->format);
    CHECK(num_inputs <= scale_inputs(*stored), "format_of_codes() chooses the format");
  }

  // A tied embedding is read a second time where the head is kept in another format.
  const bool has_tied_copy = config.tie_word_embeddings && format.quantization;
  const size_t num_tensors = expected_tensors(config).size() + (has_tied_copy ? 1 : 0);
  Loader loader(
      source,
      pool,
      {.format = format, .num_tensors = num_tensors, .progress = progress, .feedback = feedback}
  );
  ModelWeights weights;
  const std::string embedding_name = "model.embed_tokens.weight";
  Result<void> done = load_into(weights.embedding, loader.unquantized({embedding_name}));
  if (!done) return done.error();
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    LayerWeights& layer = weights.layers.emplace_back();
    if (done = load_attention(config, i, loader, layer); !done) return done.error();
    if (done = load_mlp(config, i, loader, layer); !done) return done.error();
  }
  weights.final_norm = loader.vector("model.norm.weight");
  if (!config.tie_word_embeddings || has_tied_copy) {
    const std::string name = has_tied_copy ? embedding_name : "lm_head.weight";
    if (done = load_into(weights.lm_head.emplace(), loader.head(name)); !done) return done.error();
  }
  return weights;
}

Result<WeightMatrix> load_matrix(
    const WeightSource& source,
    const std::vector<std::string>& names,
    MatrixFormat format,
    ThreadPool& pool
) {
  const WeightFormat others;
  const LoadProgress nobody;
  const FeedbackSource none;
  Loader loader(
      source,
      pool,
      {.format = others, .num_tensors = names.size(), .progress = nobody, .feedback = none}
  );
  return loader.stacked(names, format);
}

}  // namespace millrace
