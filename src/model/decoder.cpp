#include "model/decoder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/attention/write_kv.h"
#include "kernels/embed.h"
#include "kernels/experts/expert_routes.h"
#include "kernels/rms_norm.h"
#include "model/input_rounding.h"

namespace millrace {

namespace {

// Moves the rows to the front, in their order.
void move_to_front(const Rows& matrix, std::span<const int32_t> rows) {
  for (size_t to = 0; to < rows.size(); ++to) {
    const auto from = static_cast<size_t>(rows[to]);
    if (from != to) std::copy_n(matrix.row(from), matrix.num_columns, matrix.row(to));
  }
}

}  // namespace

ConstRows Decoder::forward(const ForwardBatch& batch) {
  // Whoever observes the inputs of the matrices wants those of all tokens.
  const OutputRows outputs = observer_ == nullptr ? output_rows(batch) : all_rows(batch);
  parts_.kv_cache.copy_blocks(batch.block_copies, executor_.pool);
  if (batch.num_tokens() > 0) run_layers(batch, outputs);
  const ConstRows result = logits(batch, outputs);
  save_hidden(batch, outputs);
  return result;
}

void Decoder::run_layers(const ForwardBatch& batch, const OutputRows& outputs) {
  const Rows hidden = parts_.workspace.hidden.rows(batch.token_ids.size());
  const WeightMatrix& table = parts_.weights.embedding;
  embed(executor_, {.token_ids = batch.token_ids, .table = table, .out = hidden});
  LayerRows rows = {batch.positions, batch.cu_seqlens};
  const size_t num_layers = parts_.weights.layers.size();
  for (size_t index = 0; index < num_layers; ++index) {
    write_keys_and_values(index, batch);
    if (index + 1 == num_layers) {
      keep_rows(outputs);
      rows = {outputs.positions, outputs.cu_seqlens};
    }
    if (rows.num_rows() == 0) continue;
    attention_block(index, batch, rows);
    mlp_block(index, rows.num_rows());
  }
}

void Decoder::write_keys_and_values(size_t index, const ForwardBatch& batch) {
  const LayerWeights& weights = parts_.weights.layers[index];
  const Rows hidden = parts_.workspace.hidden.rows(batch.token_ids.size());
  const Rows normed = parts_.workspace.normed.rows(batch.token_ids.size());
  const Rows qkv = parts_.workspace.qkv.rows(batch.token_ids.size());

  const RmsNormRows norm = norm_of(hidden, weights.attention_norm, normed);
  product(
      {MatrixKind::kQkv, index},
      {.x = normed, .weights = weights.qkv, .bias = weights.qkv_bias, .out = qkv, .norm = &norm}
  );
  write_kv(
      executor_,
      {.qkv = qkv,
       .num_heads = static_cast<size_t>(parts_.config.num_heads),
       .q_norm = weights.q_norm,
       .k_norm = weights.k_norm,
       .norm_eps = norm_eps(),
       .rope = parts_.rope,
       .positions = batch.positions,
       .slots = batch.slot_mapping,
       .cache = parts_.kv_cache.layer(index)}
  );
}

void Decoder::keep_rows(const OutputRows& outputs) {
  const size_t num_tokens = outputs.row_of.size();
  const Rows attention = parts_.workspace.attention.rows(num_tokens);
  const Rows qkv = parts_.workspace.qkv.rows(num_tokens);
  move_to_front(parts_.workspace.hidden.rows(num_tokens), outputs.tokens);
  move_to_front(qkv.columns(0, attention.num_columns), outputs.tokens);
}

void Decoder::attention_block(size_t index, const ForwardBatch& batch, const LayerRows& rows) {
  const LayerWeights& weights = parts_.weights.layers[index];
  const Rows hidden = parts_.workspace.hidden.rows(rows.num_rows());
  const Rows qkv = parts_.workspace.qkv.rows(rows.num_rows());
  const Rows attention = parts_.workspace.attention.rows(rows.num_rows());

  paged_attention(
      executor_,
      {.q = qkv.columns(0, attention.num_columns),
       .num_heads = static_cast<size_t>(parts_.config.num_heads),
       .cache = parts_.kv_cache.layer(index),
       .positions = rows.positions,
       .cu_seqlens = rows.cu_seqlens,
       .block_tables = batch.block_tables,
       .blocks_per_sequence_max = static_cast<size_t>(batch.max_blocks_per_sequence),
       .scratch = parts_.workspace.attention_scratch.as<float>(),
       .out = attention}
  );
  product(
      {MatrixKind::kAttentionOut, index},
      {.x = attention,
       .weights = weights.attention_out,
       .bias = weights.attention_out_bias,
       .out = hidden,
       .epilogue = residual_epilogue()}
  );
  sum_over_ranks(hidden);
}

void Decoder::mlp_block(size_t index, size_t num_rows) {
  const LayerWeights& weights = parts_.weights.layers[index];
  const Rows hidden = parts_.workspace.hidden.rows(num_rows);
  const Rows normed = parts_.workspace.normed.rows(num_rows);
  const RmsNormRows norm = norm_of(hidden, weights.mlp_norm, normed);
  if (weights.experts) {
    executor_.for_row_ranges(num_rows, normed.num_columns, norm);
    experts_block(index, num_rows);
  } else {
    feed_forward(index, hidden, residual_epilogue(), &norm);
  }
  sum_over_ranks(hidden);
}

void Decoder::feed_forward(
    size_t index, Rows out, LinearEpilogue epilogue, const RmsNormRows* norm
) {
  const LayerWeights& weights = parts_.weights.layers[index];
  const Rows normed = parts_.workspace.normed.rows(out.num_rows);
  const Rows activation =
      parts_.workspace.activation.rows(out.num_rows, weights.down.num_columns());

  // Whoever observes the inputs of `down` wants floats.
  const RowsForm form = observer_ == nullptr
                            ? form_between(executor_.isa, weights.gate_up, weights.down, activation)
                            : RowsForm::kFloats;
  product(
      {MatrixKind::kGateUp, index},
      {.x = normed,
       .weights = weights.gate_up,
       .bias = weights.gate_up_bias,
       .out = activation,
       .epilogue = LinearEpilogue::kSiluMul,
       .out_form = form,
       .norm = norm}
  );
  product(
      {MatrixKind::kDown, index},
      {.x = activation,
       .weights = weights.down,
       .bias = weights.down_bias,
       .out = out,
       .epilogue = epilogue,
       .x_form = form}
  );
}

void Decoder::experts_block(size_t index, size_t num_rows) {
  const LayerWeights& weights = parts_.weights.layers[index];
  const ExpertWeights& experts = *weights.experts;
  Workspace& space = parts_.workspace;
  const auto num_experts = static_cast<size_t>(parts_.config.moe->num_experts);
  const Rows hidden = space.hidden.rows(num_rows);
  const Rows normed = space.normed.rows(num_rows);
  const Rows router = space.router.rows(num_rows);
  multiply(
      executor_,
      {.x = normed,
       .weights = experts.router,
       .bias = {},
       .out = router,
       .scratch = space.linear_scratch.bytes()}
  );
  if (router.num_columns > num_experts) {
    const Rows shared = space.expert_rows.rows(num_rows);
    feed_forward(index, shared, LinearEpilogue::kStore, nullptr);
    add_gated(executor_, router.columns(num_experts, 1), shared, hidden);
  }

  ExpertRoutes& routes = space.routes;
  routes.choose(executor_, router.columns(0, num_experts));
  const Rows rows = space.expert_rows.rows(routes.num_rows());
  const Rows activation = space.activation.rows(routes.num_rows(), experts.down.num_columns());
  routes.gather(executor_, normed, rows);
  expert_product(
      MatrixKind::kGateUp,
      {.x = rows,
       .weights = experts.gate_up,
       .bias = {},
       .out = activation,
       .epilogue = LinearEpilogue::kSiluMul}
  );
  expert_product(
      MatrixKind::kDown, {.x = activation, .weights = experts.down, .bias = {}, .out = rows}
  );
  routes.add_to(executor_, rows, hidden);
}

ConstRows Decoder::logits(const ForwardBatch& batch, const OutputRows& outputs) {
  Workspace& space = parts_.workspace;
  const size_t num_logits = batch.logit_rows.size();
  const Rows wanted = space.logits_hidden.rows(num_logits);
  const Rows out = space.logits.rows(num_logits);
  const Rows part = parts_.group == nullptr ? out : space.head_part.rows(num_logits);
  for (size_t i = 0; i < num_logits; ++i) {
    const LogitRow& row = batch.logit_rows[i];
    const float* const state = row.source == LogitRow::Source::kToken ? state_of(row.index, outputs)
                                                                      : saved_state(row.index);
    std::copy_n(state, wanted.num_columns, wanted.row(i));
  }
  const RmsNormRows norm = norm_of(wanted, parts_.weights.final_norm, wanted);
  product(
      {MatrixKind::kHead, 0},
      {.x = wanted, .weights = parts_.weights.output_head(), .bias = {}, .out = part, .norm = &norm}
  );
  if (parts_.group != nullptr) {
    for (size_t i = 0; i < num_logits; ++i) {
      parts_.group->all_gather({part.row(i), part.num_columns}, {out.row(i), out.num_columns});
    }
  }
  return out;
}

RmsNormRows Decoder::norm_of(ConstRows x, std::span<const float> weight, Rows out) const {
  return {executor_.isa, {.x = x, .weight = weight, .eps = norm_eps(), .out = out}};
}

// What was there counts once: in rank 0's part.
LinearEpilogue Decoder::residual_epilogue() const {
  const bool has_residual = parts_.group == nullptr || parts_.group->rank() == 0;
  return has_residual ? LinearEpilogue::kAddToOut : LinearEpilogue::kStore;
}

void Decoder::sum_over_ranks(Rows hidden) {
  if (parts_.group == nullptr) return;
  parts_.group->all_reduce_sum({hidden.data, hidden.num_rows * hidden.num_columns});
}

const WeightMatrix& Decoder::matrix_after(const MatrixPlace& place) const {
  const std::span<const LayerWeights> layers = parts_.weights.layers;
  switch (place.kind) {
    case MatrixKind::kQkv:
      return layers[place.layer].attention_out;
    case MatrixKind::kAttentionOut: {
      const LayerWeights& layer = layers[place.layer];
      return layer.experts ? layer.experts->router : layer.gate_up;
    }
    case MatrixKind::kGateUp:
      return layers[place.layer].down;
    case MatrixKind::kDown: {
      const bool is_last = place.layer + 1 == layers.size();
      return is_last ? parts_.weights.output_head() : layers[place.layer + 1].qkv;
    }
    case MatrixKind::kHead:
      break;
  }
  return layers[0].qkv;
}

InputRounding Decoder::rounding_of(const WeightMatrix& weights, MatrixKind kind) const {
  if (weights.quantized() == nullptr) return {};
  if (are_codes(weights.quantized()->format())) return InputRounding::kUnrotated;
  // Beside codes: what was stored otherwise.
  const Quantization& quantization = *parts_.quantization;
  return input_rounding(quantization.keeps_codes() ? QuantizedFormat::kInt8 : quantization, kind);
}

void Decoder::product(const MatrixPlace& place, MultiplyArgs args) {
  if (observer_ != nullptr) {
    if (args.norm != nullptr) (*std::exchange(args.norm, nullptr))(0, args.x.num_rows);
    observer_->observe(place, args.x);
  }
  args.rounding = rounding_of(args.weights, place.kind);
  args.scratch = parts_.workspace.linear_scratch.bytes();
  args.next = matrix_after(place).panels();
  multiply(executor_, args);
}

void Decoder::expert_product(MatrixKind kind, MultiplyArgs args) {
  const size_t num_parts = static_cast<size_t>(parts_.config.moe->num_experts);
  args.rounding = rounding_of(args.weights, kind);
  args.scratch = parts_.workspace.linear_scratch.bytes();
  args.groups = RowGroups{
      .groups = parts_.workspace.routes.groups(),
      .part_panels = args.weights.panels().num_panels / num_parts};
  multiply(executor_, args);
}

// The residual stream as the last layer left it: the final norm is the same computation each time.
void Decoder::save_hidden(const ForwardBatch& batch, const OutputRows& outputs) {
  const auto num_columns = static_cast<size_t>(parts_.config.hidden_size);
  for (const HiddenSave& save : batch.hidden_saves) {
    std::copy_n(state_of(save.token, outputs), num_columns, saved_state(save.slot));
  }
}

const float* Decoder::state_of(int32_t token, const OutputRows& outputs) {
  const int32_t row = outputs.row_of[static_cast<size_t>(token)];
  return parts_.workspace.hidden.rows(outputs.num_rows()).row(static_cast<size_t>(row));
}

float* Decoder::saved_state(int32_t slot) {
  const auto index = static_cast<size_t>(slot);
  return parts_.saved_hidden.rows(index + 1).row(index);
}

}  // namespace millrace
