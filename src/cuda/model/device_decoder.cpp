#include "cuda/model/device_decoder.h"

#include <cmath>

#include "base/math.h"
#include "cuda/kernels/attention_wide.h"
#include "cuda/kernels/embed.h"
#include "cuda/kernels/hidden_rows.h"
#include "cuda/kernels/join_columns.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/kernels/rms_norm.h"
#include "cuda/kernels/rotate_rows.h"
#include "cuda/kernels/write_kv.h"

namespace millrace::cuda {

void DeviceDecoder::layers(StreamHandle stream, const StepView& step, size_t context_len_max)
    const {
  const DeviceWorkspace& space = parts_.workspace;
  embed(
      stream,
      {.token_ids = step.token_ids,
       .num_tokens = step.shape.num_tokens,
       .table = parts_.weights.embedding,
       .hidden = hidden_size(),
       .out = space.hidden}
  );
  for (size_t index = 0; index < parts_.weights.layers.size(); ++index) {
    attention_block(stream, index, step, context_len_max);
    mlp_block(stream, index, step.shape.num_tokens);
  }
}

void DeviceDecoder::attention_block(
    StreamHandle stream, size_t index, const StepView& step, size_t context_len_max
) const {
  const ModelConfig& config = parts_.config;
  const DeviceLayer& weights = parts_.weights.layers[index];
  const DeviceWorkspace& space = parts_.workspace;
  const size_t num_tokens = step.shape.num_tokens;

  multiply_normed(
      stream,
      {.x = space.hidden, .weight = weights.attention_norm},
      weights.qkv,
      {.x = space.normed, .num_tokens = num_tokens, .out = space.qkv}
  );
  attend(
      stream,
      {.qkv = space.qkv,
       .num_tokens = num_tokens,
       .num_heads = static_cast<size_t>(config.num_heads),
       .q_norm = weights.q_norm,
       .k_norm = weights.k_norm,
       .norm_eps = static_cast<float>(config.rms_norm_eps),
       .rope = parts_.rope.as<float>(),
       .positions = step.positions,
       .slots = step.slots,
       .cache = parts_.kv_cache.layer(index),
       .q = space.query,
       .q_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))},
      step,
      context_len_max
  );
  multiply(
      stream,
      weights.attention_out,
      {.x = space.attention,
       .num_tokens = num_tokens,
       .epilogue = residual_epilogue(),
       .out = space.hidden}
  );
  sum_over_ranks(stream, num_tokens);
}

// The same bits in every way.
void DeviceDecoder::attend(
    StreamHandle stream, const WriteKvArgs& fresh, const StepView& step, size_t context_len_max
) const {
  const DeviceWorkspace& space = parts_.workspace;
  const PagedAttentionArgs args = {
      .q = fresh.q,
      .num_tokens = fresh.num_tokens,
      .num_heads = fresh.num_heads,
      .cache = fresh.cache,
      .positions = step.positions,
      .cu_seqlens = step.cu_seqlens,
      .block_tables = step.block_tables,
      .blocks_per_sequence_max = step.shape.num_blocks_per_sequence,
      .tiles = step.tiles,
      .num_tiles = step.shape.num_tiles,
      .out = space.attention};
  AttentionPartials partials = space.partials;
  partials.num_splits_max = div_ceil(context_len_max, kSplitPositions);
  const bool has_few_tiles = args.num_tiles <= DeviceWorkspace::kSplitTilesMax;
  if (has_few_tiles && step.shape.is_decode) {
    return decode_attention(stream, args, partials, fresh);
  }
  write_kv(stream, fresh);
  if (step.shape.tile_rows == kWideAttentionRows) return paged_attention_wide(stream, args);
  if (!has_few_tiles) return paged_attention(stream, args);
  paged_attention_in_splits(stream, args, partials);
}

void DeviceDecoder::mlp_block(StreamHandle stream, size_t index, size_t num_tokens) const {
  const DeviceLayer& weights = parts_.weights.layers[index];
  const DeviceWorkspace& space = parts_.workspace;
  multiply_normed(
      stream,
      {.x = space.hidden, .weight = weights.mlp_norm},
      weights.gate_up,
      {.x = space.normed,
       .num_tokens = num_tokens,
       .epilogue = LinearEpilogue::kSiluMul,
       .activation = space.activation}
  );
  multiply(
      stream,
      weights.down,
      {.x = space.activation,
       .num_tokens = num_tokens,
       .epilogue = residual_epilogue(),
       .out = space.hidden}
  );
  sum_over_ranks(stream, num_tokens);
}

void DeviceDecoder::logits(StreamHandle stream, const StepView& step) const {
  const DeviceWorkspace& space = parts_.workspace;
  const size_t num_logits = step.shape.num_logits;
  gather_rows(
      stream,
      {.hidden = space.hidden,
       .saved = parts_.saved_hidden.as<float>(),
       .width = hidden_size(),
       .sources = step.logit_sources,
       .num_rows = num_logits,
       .out = space.logits_hidden}
  );
  multiply_normed(
      stream,
      {.x = space.logits_hidden, .weight = parts_.weights.final_norm},
      parts_.weights.lm_head,
      {.x = space.normed, .num_tokens = num_logits, .out = own_logits(num_logits)}
  );
  if (parts_.communicator != nullptr) join_logits(stream, num_logits);
}

float* DeviceDecoder::own_logits(size_t num_logits) const {
  const DeviceWorkspace& space = parts_.workspace;
  if (parts_.communicator == nullptr) return space.logits;
  const size_t part_size = num_logits * static_cast<size_t>(parts_.config.head_size());
  return space.head_parts + static_cast<size_t>(parts_.communicator->rank()) * part_size;
}

void DeviceDecoder::join_logits(StreamHandle stream, size_t num_logits) const {
  const DeviceWorkspace& space = parts_.workspace;
  const auto head_size = static_cast<size_t>(parts_.config.head_size());
  parts_.communicator->all_gather(
      stream, own_logits(num_logits), space.head_parts, num_logits * head_size
  );
  join_columns(
      stream,
      {.parts = space.head_parts,
       .part_width = head_size,
       .num_rows = num_logits,
       .width = static_cast<size_t>(parts_.config.vocab_size),
       .out = space.logits}
  );
}

// What was there counts once: in rank 0's part.
LinearEpilogue DeviceDecoder::residual_epilogue() const {
  const bool has_residual = parts_.communicator == nullptr || parts_.communicator->rank() == 0;
  return has_residual ? LinearEpilogue::kAddToOut : LinearEpilogue::kStore;
}

void DeviceDecoder::sum_over_ranks(StreamHandle stream, size_t num_tokens) const {
  if (parts_.communicator == nullptr) return;
  parts_.communicator->all_reduce_sum(stream, parts_.workspace.hidden, num_tokens * hidden_size());
}

LinearArgs DeviceDecoder::linear_args(const DeviceMatrix& matrix, const Product& product) {
  return {
      .x = product.x,
      .num_tokens = product.num_tokens,
      .num_inputs = matrix.num_inputs,
      .weights = matrix.data,
      .num_rows = matrix.num_rows,
      .bias = matrix.bias,
      .epilogue = product.epilogue,
      .out = product.out,
      .activation = product.activation};
}

void DeviceDecoder::multiply(
    StreamHandle stream, const DeviceMatrix& matrix, const Product& product
) const {
  if (!matrix.format) return linear(stream, linear_args(matrix, product));
  uint16_t* const rotated = parts_.workspace.rotated;
  rotate_rows(
      stream,
      {.x = product.x,
       .num_tokens = product.num_tokens,
       .num_inputs = matrix.num_inputs,
       .out = rotated}
  );
  multiply_rotated(stream, matrix, product);
}

void DeviceDecoder::multiply_rotated(
    StreamHandle stream, const DeviceMatrix& matrix, const Product& product
) const {
  LinearArgs args = linear_args(matrix, product);
  args.x = parts_.workspace.rotated;
  linear_quantized(stream, *matrix.format, args);
}

void DeviceDecoder::multiply_normed(
    StreamHandle stream, const NormedRows& rows, const DeviceMatrix& matrix, const Product& product
) const {
  const RmsNormArgs norm = {
      .x = rows.x,
      .num_tokens = product.num_tokens,
      .hidden = hidden_size(),
      .weight = rows.weight,
      .eps = static_cast<float>(parts_.config.rms_norm_eps),
      .out = parts_.workspace.normed};
  if (!matrix.format) return linear_of_normed(stream, norm, linear_args(matrix, product));
  rotate_normed(stream, norm, parts_.workspace.rotated);
  multiply_rotated(stream, matrix, product);
}

}  // namespace millrace::cuda
