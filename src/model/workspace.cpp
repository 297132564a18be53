#include "model/workspace.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/attention/paged_attention.h"

namespace millrace {
namespace {

Result<void> allocate_into(ActivationBuffer& target, size_t num_bytes, int64_t num_columns) {
  Result<ActivationBuffer> buffer =
      ActivationBuffer::allocate(num_bytes, static_cast<size_t>(num_columns));
  if (!buffer) return buffer.error();
  target = *std::move(buffer);
  return {};
}

// What the feed-forward networks of a model ask for, per token of a batch.
struct FeedForwardSizes {
  int64_t widest = 0;      // of the networks that all tokens pass through; 0: none
  int64_t num_routes = 0;  // experts of a token
  int64_t expert_width = 0;
  int64_t router_width = 0;

  int64_t activations() const { return std::max(widest, num_routes * expert_width); }
};

FeedForwardSizes feed_forward_sizes(const ModelConfig& config) {
  FeedForwardSizes sizes;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.has_experts(layer)) {
      sizes.widest = std::max(sizes.widest, config.intermediate_size);
      continue;
    }
    const MoeConfig& moe = *config.moe;
    sizes.widest = std::max(sizes.widest, moe.shared_expert_intermediate_size);
    sizes.num_routes = moe.num_experts_per_token;
    sizes.expert_width = moe.expert_intermediate_size;
    sizes.router_width = moe.num_experts + (moe.shared_expert_intermediate_size > 0 ? 1 : 0);
  }
  return sizes;
}

ExpertChoice expert_choice(const ModelConfig& config) {
  if (!config.moe) return {};
  return {
      .num_experts = static_cast<size_t>(config.moe->num_experts),
      .num_per_token = static_cast<size_t>(config.moe->num_experts_per_token),
      .normalizes = config.moe->normalize_topk};
}

size_t largest_linear_scratch_bytes(const ModelConfig& config, const WorkspaceLimits& limits) {
  const auto scratch_bytes = [&](const WeightFormat& format, size_t num_rows, int64_t num_inputs) {
    return multiply_scratch_bytes(
        format, limits.num_threads, num_rows, static_cast<size_t>(num_inputs)
    );
  };
  const FeedForwardSizes sizes = feed_forward_sizes(config);
  const size_t num_tokens = limits.num_tokens_max;
  const int64_t num_inputs = std::max({config.hidden_size, config.q_size(), sizes.widest});
  const size_t dense = std::max(
      scratch_bytes(limits.weights, num_tokens, num_inputs),
      scratch_bytes(limits.weights, limits.num_logits_max, config.hidden_size)
  );
  if (sizes.num_routes == 0) return dense;
  const size_t num_routes = num_tokens * static_cast<size_t>(sizes.num_routes);
  const int64_t expert_inputs = std::max(config.hidden_size, sizes.expert_width);
  return std::max(
      {dense,
       scratch_bytes({.dtype = limits.weights.dtype}, num_tokens, config.hidden_size),
       scratch_bytes(limits.weights, kGroupedRowsFactor * num_routes, expert_inputs)}
  );
}

}  // namespace

WorkspaceBytes workspace_bytes(const ModelConfig& config, const WorkspaceLimits& limits) {
  const auto matrix = [](size_t num_rows, int64_t num_columns) {
    return num_rows * static_cast<size_t>(num_columns) * sizeof(float);
  };
  const int64_t head_part_size = config.num_head_parts ? config.head_size() : 0;
  const FeedForwardSizes sizes = feed_forward_sizes(config);
  return {
      .hidden = matrix(limits.num_tokens_max, config.hidden_size),
      .normed = matrix(limits.num_tokens_max, config.hidden_size),
      .qkv = matrix(limits.num_tokens_max, config.q_size() + 2 * config.kv_size()),
      .attention = matrix(limits.num_tokens_max, config.q_size()),
      .activation = matrix(limits.num_tokens_max, sizes.activations()),
      .expert_rows = matrix(limits.num_tokens_max, sizes.num_routes * config.hidden_size),
      .router = matrix(limits.num_tokens_max, sizes.router_width),
      .routes = ExpertRoutes::num_bytes(expert_choice(config), limits.num_tokens_max),
      .logits_hidden = matrix(limits.num_logits_max, config.hidden_size),
      .logits = matrix(limits.num_logits_max, config.vocab_size),
      .head_part = matrix(limits.num_logits_max, head_part_size),
      .attention_scratch = paged_attention_scratch_size({
                               .num_threads = limits.num_threads,
                               .num_heads = static_cast<size_t>(config.num_heads),
                               .num_kv_heads = static_cast<size_t>(config.num_kv_heads),
                               .head_dim = static_cast<size_t>(config.head_dim),
                               .context_max = limits.context_max,
                           }) *
                           sizeof(float),
      .linear_scratch = largest_linear_scratch_bytes(config, limits),
  };
}

size_t hidden_state_bytes(const ModelConfig& config) {
  return static_cast<size_t>(config.hidden_size) * sizeof(float);
}

Result<ActivationBuffer> ActivationBuffer::allocate(size_t num_bytes, size_t num_columns) {
  Result<Buffer> buffer = Buffer::allocate(num_bytes);
  if (!buffer) return buffer.error();
  ActivationBuffer activation;
  activation.num_columns_ = num_columns;
  activation.buffer_ = *std::move(buffer);
  return activation;
}

Rows ActivationBuffer::rows(size_t num_rows, size_t num_columns) {
  const std::span<float> values = buffer_.as<float>();
  CHECK(num_rows * num_columns <= values.size(), "the workspace holds that many rows");
  return {values.data(), num_rows, num_columns, num_columns};
}

Result<Workspace> Workspace::allocate(const ModelConfig& config, const WorkspaceLimits& limits) {
  const WorkspaceBytes bytes = workspace_bytes(config, limits);
  Workspace space;
  struct Part {
    ActivationBuffer& buffer;
    size_t num_bytes;
    int64_t num_columns;
  };
  const Part parts[] = {
      {space.hidden, bytes.hidden, config.hidden_size},
      {space.normed, bytes.normed, config.hidden_size},
      {space.qkv, bytes.qkv, config.q_size() + 2 * config.kv_size()},
      {space.attention, bytes.attention, config.q_size()},
      {space.activation, bytes.activation, config.intermediate_size},
      {space.expert_rows, bytes.expert_rows, config.hidden_size},
      {space.router, bytes.router, feed_forward_sizes(config).router_width},
      {space.logits_hidden, bytes.logits_hidden, config.hidden_size},
      {space.logits, bytes.logits, config.vocab_size},
      {space.head_part, bytes.head_part, config.head_size()},
  };
  for (const Part& part : parts) {
    Result<void> done = allocate_into(part.buffer, part.num_bytes, part.num_columns);
    if (!done) return done.error();
  }
  space.routes = ExpertRoutes(expert_choice(config), limits.num_tokens_max);
  Result<Buffer> scratch = Buffer::allocate(bytes.attention_scratch);
  if (!scratch) return scratch.error();
  space.attention_scratch = *std::move(scratch);
  Result<Buffer> linear_scratch = Buffer::allocate(bytes.linear_scratch);
  if (!linear_scratch) return linear_scratch.error();
  space.linear_scratch = *std::move(linear_scratch);
  return space;
}

}  // namespace millrace
