#include "model/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "kernels/quantized/quantized_matrix.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

constexpr auto kGroup = static_cast<int64_t>(QuantizedMatrix::kGroup);

Result<void> check_splittable(const ModelConfig& config, int64_t world_size) {
  if (config.moe) {
    return unsupported("models with experts cannot be split over processes yet", "num_experts");
  }
  if (config.stored_quantization) {
    return unsupported(
        fmt::format(
            "weights that are stored as {0} cannot be split over processes yet: load the original "
            "ones, as --quantization {0}",
            name_of(*config.stored_quantization)
        ),
        "quantization_config"
    );
  }
  if (config.num_heads % world_size != 0) {
    return invalid_argument(
        fmt::format(
            "{} attention heads cannot be split over {} processes: expected a multiple",
            config.num_heads,
            world_size
        ),
        "num_attention_heads"
    );
  }
  if (config.num_kv_heads % world_size != 0 && world_size % config.num_kv_heads != 0) {
    return invalid_argument(
        fmt::format(
            "{} KV heads cannot be split over {} processes: expected a multiple or a divisor",
            config.num_kv_heads,
            world_size
        ),
        "num_key_value_heads"
    );
  }
  return {};
}

}  // namespace

Result<ModelConfig> shard_config(const ModelConfig& config, const ModelShard& shard) {
  const int64_t world_size = shard.world_size;
  CHECK(shard.rank >= 0 && shard.rank < world_size, "one of the ranks");
  if (Result<void> good = check_splittable(config, world_size); !good) return good.error();
  ModelConfig part = config;
  part.num_heads = config.num_heads / world_size;
  part.num_kv_heads = std::max<int64_t>(1, config.num_kv_heads / world_size);
  part.intermediate_size = round_up(div_ceil(config.intermediate_size, world_size), kGroup);
  part.num_head_parts = world_size;
  part.tie_word_embeddings = false;
  return part;
}

// Finds the slice of each tensor of a rank's part.
struct ShardedWeights::Splitter {
  const ModelConfig& config;  // of the whole model
  const ModelConfig& part;
  const ModelShard& shard;
  const WeightSource& source;

  Slice slice_of(const TensorInfo& tensor) const {
    const bool is_tied_head = tensor.name == kHead && config.tie_word_embeddings;
    const TensorInfo* const whole = source.find(is_tied_head ? kEmbedding : tensor.name);
    CHECK(whole != nullptr, "the tensor is among those that were checked");
    const auto is_of = [&](std::string_view name) {
      return tensor.name.find(name) != std::string::npos;
    };
    const int64_t q = shard.rank * part.q_size();
    const int64_t kv = shard.rank * config.num_kv_heads / shard.world_size * config.head_dim;
    const int64_t inner = shard.rank * part.intermediate_size;
    if (is_of(".q_proj.")) return outputs_from(q, whole);
    if (is_of(".k_proj.") || is_of(".v_proj.")) return outputs_from(kv, whole);
    if (is_of(".gate_proj.") || is_of(".up_proj.")) return outputs_from(inner, whole);
    if (is_of(".o_proj.weight")) return inputs_from(q, whole);
    if (is_of(".down_proj.weight")) return inputs_from(inner, whole);
    // The outputs are sums over the ranks, so that one of them has the bias, and others have zeros.
    const bool is_bias_of_sum = is_of(".o_proj.bias") || is_of(".down_proj.bias");
    if (is_bias_of_sum) return outputs_from(shard.rank * config.hidden_size, whole);
    if (tensor.name == kHead) return outputs_from(shard.rank * part.head_size(), whole);
    return outputs_from(0, whole);
  }

  static Slice outputs_from(int64_t begin, const TensorInfo* whole) {
    const bool is_matrix = whole->shape.size() >= 2;
    return {.whole = whole, .row = is_matrix ? begin : 0, .column = is_matrix ? 0 : begin};
  }
  static Slice inputs_from(int64_t begin, const TensorInfo* whole) {
    return {.whole = whole, .row = 0, .column = begin};
  }
};

ShardedWeights::ShardedWeights(
    const WeightSource& source, TensorIndex index, std::vector<Slice> slices
)
    : source_(source), index_(std::move(index)), slices_(std::move(slices)) {}

Result<std::unique_ptr<ShardedWeights>> ShardedWeights::make(
    const ModelConfig& config, const ModelShard& shard, const WeightSource& source
) {
  const Result<ModelConfig> part = shard_config(config, shard);
  if (!part) return part.error();
  if (Result<void> checked = check_tensors(config, source); !checked) return checked.error();
  const Splitter splitter{.config = config, .part = *part, .shard = shard, .source = source};
  std::vector<TensorInfo> tensors = expected_tensors(*part);
  std::vector<Slice> slices;
  for (TensorInfo& tensor : tensors) {
    slices.push_back(splitter.slice_of(tensor));
    tensor.storage = slices.back().whole->storage;
  }
  Result<TensorIndex> index = TensorIndex::build(std::move(tensors));
  if (!index) return index.error();
  return std::unique_ptr<ShardedWeights>(
      new ShardedWeights(source, *std::move(index), std::move(slices))
  );
}

void ShardedWeights::read_rows(
    const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
) const {
  const int64_t width = tensor.row_length();
  CHECK(static_cast<int64_t>(out.size()) == num_rows * width, "room for the rows");
  const Slice& slice = slices_[index_.position_of(tensor)];
  const int64_t first = slice.row + row_begin;
  const int64_t whole_width = slice.whole->row_length();
  const int64_t num_found = std::clamp<int64_t>(slice.whole->num_rows() - first, 0, num_rows);
  const int64_t width_found = std::clamp<int64_t>(whole_width - slice.column, 0, width);
  std::ranges::fill(out, 0.0F);
  if (num_found == 0 || width_found == 0) return;
  if (width == whole_width && slice.column == 0) {
    const std::span<float> found = out.first(static_cast<size_t>(num_found * width));
    return source_.read_rows(*slice.whole, first, num_found, found);
  }
  std::vector<float> rows(static_cast<size_t>(num_found * whole_width));
  source_.read_rows(*slice.whole, first, num_found, rows);
  for (int64_t row = 0; row < num_found; ++row) {
    const float* const from = rows.data() + row * whole_width + slice.column;
    std::copy_n(from, width_found, out.data() + row * width);
  }
}

CodeForm ShardedWeights::code_form(const TensorInfo& tensor) const {
  const Slice& slice = slices_[index_.position_of(tensor)];
  CodeForm form = source_.code_form(*slice.whole);
  if (!form) return {};
  for (const size_t num_inputs : {size_t{64}, size_t{32}, size_t{16}}) {
    const bool begins_a_group = static_cast<size_t>(slice.column) % num_inputs == 0;
    if (num_inputs > form.num_inputs || !begins_a_group) continue;
    form.num_inputs = num_inputs;
    return form;
  }
  return {};
}

// What lies beyond is zero, but for the inputs after the last ones of a group: those have its base,
// and are zeros themselves, because the rows that make them lie beyond as well.
void ShardedWeights::read_codes(
    const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
) const {
  check_rows(tensor, row_begin, num_rows, out.codes.size());
  const Slice& slice = slices_[index_.position_of(tensor)];
  const int64_t first = slice.row + row_begin;
  const int64_t num_found = std::clamp<int64_t>(slice.whole->num_rows() - first, 0, num_rows);
  std::ranges::fill(out.codes, uint8_t{0});
  std::ranges::fill(out.scales, 0.0F);
  std::ranges::fill(out.bases, 0.0F);
  if (num_found == 0) return;
  const auto whole_width = static_cast<size_t>(slice.whole->row_length());
  const size_t whole_scales = div_ceil(whole_width, out.num_inputs);
  const auto count = static_cast<size_t>(num_found);
  std::vector<uint8_t> codes(count * whole_width);
  std::vector<float> scales(count * whole_scales);
  std::vector<float> bases(count * whole_scales);
  source_.read_codes(*slice.whole, first, num_found, {codes, scales, bases, out.num_inputs});
  // Part of each row of `from`, `from_width` long, to the rows of `to`.
  const auto copy_part = [&](const auto& from, size_t from_width, auto to, size_t begin) {
    const size_t to_width = to.size() / static_cast<size_t>(num_rows);
    if (begin >= from_width) return;
    const size_t length = std::min(to_width, from_width - begin);
    for (size_t row = 0; row < count; ++row) {
      std::copy_n(&from[row * from_width + begin], length, &to[row * to_width]);
    }
  };
  const auto column = static_cast<size_t>(slice.column);
  copy_part(codes, whole_width, out.codes, column);
  copy_part(scales, whole_scales, out.scales, column / out.num_inputs);
  copy_part(bases, whole_scales, out.bases, column / out.num_inputs);
}

}  // namespace millrace
