#include "cuda/model/device_decoder.h"

#include <cmath>

#include "base/math.h"
#include "cuda/kernels/embed.h"
#include "cuda/kernels/hidden_rows.h"
#include "cuda/kernels/join_columns.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/kernels/rms_norm.h"
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
  const auto num_heads = static_cast<size_t>(config.num_heads);
  const size_t num_tokens = step.shape.num_tokens;
  const KvBlocks cache = parts_.kv_cache.layer(index);

  norm(stream, space.hidden, num_tokens, weights.attention_norm);
  multiply(stream, weights.qkv, {.x = space.normed, .num_tokens = num_tokens, .out = space.qkv});
  write_kv(
      stream,
      {.qkv = space.qkv,
       .num_tokens = num_tokens,
       .num_heads = num_heads,
       .q_norm = weights.q_norm,
       .k_norm = weights.k_norm,
       .norm_eps = static_cast<float>(config.rms_norm_eps),
       .rope = parts_.rope.as<float>(),
       .positions = step.positions,
       .slots = step.slots,
       .cache = cache,
       .q = space.query,
       .q_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))}
  );
  attend(stream, cache, step, context_len_max);
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

// The same bits in either way.
void DeviceDecoder::attend(
    StreamHandle stream, const KvBlocks& cache, const StepView& step, size_t context_len_max
) const {
  const DeviceWorkspace& space = parts_.workspace;
  const PagedAttentionArgs args = {
      .q = space.query,
      .num_heads = static_cast<size_t>(parts_.config.num_heads),
      .cache = cache,
      .positions = step.positions,
      .cu_seqlens = step.cu_seqlens,
      .block_tables = step.block_tables,
      .blocks_per_sequence_max = step.shape.num_blocks_per_sequence,
      .tiles = step.tiles,
      .num_tiles = step.shape.num_tiles,
      .out = space.attention};
  if (args.num_tiles > DeviceWorkspace::kSplitTilesMax) return paged_attention(stream, args);
  AttentionPartials partials = space.partials;
  partials.num_splits_max = div_ceil(context_len_max, kSplitPositions);
  paged_attention_in_splits(stream, args, partials);
}

void DeviceDecoder::mlp_block(StreamHandle stream, size_t index, size_t num_tokens) const {
  const DeviceLayer& weights = parts_.weights.layers[index];
  const DeviceWorkspace& space = parts_.workspace;
  norm(stream, space.hidden, num_tokens, weights.mlp_norm);
  multiply(
      stream,
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
  norm(stream, space.logits_hidden, num_logits, parts_.weights.final_norm);
  multiply(
      stream,
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

void DeviceDecoder::multiply(
    StreamHandle stream, const DeviceMatrix& matrix, const Product& product
) const {
  if (!matrix.format) {
    linear(
        stream,
        {.x = product.x,
         .num_tokens = product.num_tokens,
         .num_inputs = matrix.num_inputs,
         .weights = static_cast<const uint16_t*>(matrix.data),
         .num_rows = matrix.num_rows,
         .bias = matrix.bias,
         .epilogue = product.epilogue,
         .out = product.out,
         .activation = product.activation}
    );
    return;
  }
  uint16_t* const rotated = parts_.workspace.rotated;
  rotate_rows(
      stream,
      {.x = product.x,
       .num_tokens = product.num_tokens,
       .num_inputs = matrix.num_inputs,
       .out = rotated}
  );
  const bool is_silu_mul = product.epilogue == LinearEpilogue::kSiluMul;
  linear_quantized(
      stream,
      {.x = rotated,
       .num_tokens = product.num_tokens,
       .num_inputs = matrix.num_inputs,
       .format = *matrix.format,
       .panels = matrix.data,
       .num_outputs = is_silu_mul ? matrix.num_rows / 2 : matrix.num_rows,
       .bias = matrix.bias,
       .epilogue = product.epilogue,
       .out = product.out,
       .activation = product.activation}
  );
}

// To `normed`.
void DeviceDecoder::norm(StreamHandle stream, const float* x, size_t num_rows, const float* weight)
    const {
  rms_norm(
      stream,
      {.x = x,
       .num_tokens = num_rows,
       .hidden = hidden_size(),
       .weight = weight,
       .eps = static_cast<float>(parts_.config.rms_norm_eps),
       .out = parts_.workspace.normed}
  );
}

}  // namespace millrace::cuda
