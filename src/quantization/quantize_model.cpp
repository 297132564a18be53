#include "quantization/quantize_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/cpu_model.h"
#include "model/runner_checks.h"
#include "quantization/feedback.h"
#include "quantization/input_moments.h"
#include "quantization/smoothing.h"

namespace millrace {
namespace {

// Tokens that are read at once. Longer texts are cut into as many.
constexpr size_t kBatchTokens = 512;
constexpr int32_t kBlockSize = 16;

using Tokens = std::span<const TokenId>;

void show_progress(
    const QuantizeOptions& options, std::string_view phase, size_t num_done, size_t num_all
) {
  if (!options.on_progress) return;
  options.on_progress(phase, static_cast<double>(num_done) / static_cast<double>(num_all));
}

// Pieces of the texts of at most `piece_max` tokens, together at most kBatchTokens a batch.
std::vector<std::vector<Tokens>> batches_of(
    std::span<const std::vector<TokenId>> texts, size_t piece_max
) {
  std::vector<std::vector<Tokens>> batches;
  size_t num_free = 0;
  for (const std::vector<TokenId>& text : texts) {
    for (size_t begin = 0; begin < text.size(); begin += piece_max) {
      const Tokens piece = Tokens(text).subspan(begin, std::min(piece_max, text.size() - begin));
      if (piece.size() > num_free) {
        batches.emplace_back();
        num_free = kBatchTokens;
      }
      batches.back().push_back(piece);
      num_free -= piece.size();
    }
  }
  return batches;
}

// Sequences side by side, each in blocks of its own. The head sees every token.
ForwardBatch forward_batch(std::span<const Tokens> pieces) {
  ForwardBatch batch;
  batch.max_blocks_per_sequence = div_ceil(static_cast<int32_t>(kBatchTokens), kBlockSize);
  batch.cu_seqlens.push_back(0);
  int32_t next_block = 0;
  for (const Tokens piece : pieces) {
    const auto size = static_cast<int32_t>(piece.size());
    for (int32_t i = 0; i < size; ++i) {
      batch.logit_rows.push_back(LogitRow::of_token(batch.num_tokens()));
      batch.token_ids.push_back(piece[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slot_mapping.push_back(next_block * kBlockSize + i);
    }
    batch.cu_seqlens.push_back(batch.num_tokens());
    batch.context_lens.push_back(size);
    const int32_t num_blocks = div_ceil(size, kBlockSize);
    for (int32_t i = 0; i < batch.max_blocks_per_sequence; ++i) {
      batch.block_tables.push_back(next_block + std::min(i, num_blocks - 1));
    }
    next_block += num_blocks;
  }
  return batch;
}

// Errors would be fed back by nothing, and the model be worse without a word.
Error not_finite_error(const MatrixPlace& place) {
  const std::string layer =
      place.kind == MatrixKind::kHead ? "" : fmt::format(" of layer {}", place.layer);
  return invalid_argument(fmt::format(
      "calibration: squares of the inputs of {}{} are not finite: a weight of the model is not, or "
      "--dtype is too narrow for it",
      name_of(place.kind),
      layer
  ));
}

Result<InputMoments> calibrate(
    const ModelConfig& config,
    const WeightSource& source,
    const QuantizeOptions& options,
    ThreadPool& pool
) {
  const auto piece_max =
      std::min(kBatchTokens, static_cast<size_t>(config.max_position_embeddings));
  const CpuModelOptions model_options{
      .dtype = options.dtype,
      .kv_dtype = options.dtype,
      .block_size = kBlockSize,
      .num_blocks = static_cast<int32_t>(kBatchTokens),  // texts may be as short as one token
      .max_model_len = static_cast<int32_t>(piece_max),
      .max_num_batched_tokens = static_cast<int32_t>(kBatchTokens),
      .max_num_logits = static_cast<int32_t>(kBatchTokens),
  };
  const auto on_load = [&](size_t num_done, size_t num_all) {
    show_progress(options, "loading", num_done, num_all);
  };
  Result<std::unique_ptr<CpuModel>> model =
      CpuModel::load(config, source, model_options, pool, on_load);
  if (!model) return model.error();

  InputMoments moments(pool);
  (*model)->set_observer(&moments);
  const std::vector<std::vector<Tokens>> batches = batches_of(options.texts, piece_max);
  CHECK(!batches.empty(), "calibration reads something");
  for (size_t i = 0; i < batches.size(); ++i) {
    show_progress(options, "calibrating", i, batches.size());
    (*model)->forward(forward_batch(batches[i]));
  }
  if (const auto place = moments.find_not_finite()) return not_finite_error(*place);
  return moments;
}

// What the inputs of a matrix are divided by.
std::vector<float> divisors_of(
    const ModelConfig& config, const Smoothing& smoothing, const MatrixPlace& place
) {
  switch (place.kind) {
    case MatrixKind::kQkv:
      return smoothing.layers[place.layer].qkv;
    case MatrixKind::kAttentionOut:
      return spread_to_query_heads(config, smoothing.layers[place.layer].value);
    case MatrixKind::kGateUp:
      return smoothing.layers[place.layer].gate_up;
    case MatrixKind::kDown:
      return smoothing.layers[place.layer].down;
    case MatrixKind::kHead:
      return smoothing.head;
  }
  return {};
}

// Of untied(config).
Result<ModelWeights> calibrated_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const QuantizeOptions& options,
    const WeightFormat& format,
    ThreadPool& pool,
    const LoadProgress& on_tensor
) {
  if (Result<void> done = check_calibratable(config); !done) return done.error();
  const Result<InputMoments> moments = calibrate(config, source, options, pool);
  if (!moments) return moments.error();
  const Smoothing smoothing = choose_smoothing(config, source, *moments, pool);
  const std::unique_ptr<WeightSource> smoothed =
      smoothed_source(config, source, smoothing, options.dtype);
  const auto feedback = [&](const MatrixPlace& place) {
    return feedback_of(moments->at(place), divisors_of(config, smoothing, place), pool);
  };
  return load_weights(untied(config), *smoothed, format, pool, on_tensor, feedback);
}

}  // namespace

Result<void> check_calibratable(const ModelConfig& config) {
  return check_dense_model(config, "calibrated");
}

Result<QuantizedModel> quantize_model(
    const ModelConfig& config,
    const WeightSource& source,
    const QuantizeOptions& options,
    ThreadPool& pool
) {
  const auto on_tensor = [&](size_t num_done, size_t num_all) {
    show_progress(options, "rounding", num_done, num_all);
  };
  const WeightFormat format = {options.dtype, options.format};
  Result<ModelWeights> weights =
      options.texts.empty() ? load_weights(config, source, format, pool, on_tensor)
                            : calibrated_weights(config, source, options, format, pool, on_tensor);
  if (!weights) return weights.error();
  return QuantizedModel{.config = untied(config), .weights = *std::move(weights)};
}

}  // namespace millrace
