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

size_t largest_linear_scratch_bytes(const ModelConfig& config, const WorkspaceLimits& limits) {
  const int64_t num_inputs =
      std::max({config.hidden_size, config.q_size(), config.intermediate_size});
  const size_t of_tokens = multiply_scratch_bytes(
      limits.weights, limits.num_threads, limits.num_tokens_max, static_cast<size_t>(num_inputs)
  );
  const size_t of_logits = multiply_scratch_bytes(
      limits.weights,
      limits.num_threads,
      limits.num_logits_max,
      static_cast<size_t>(config.hidden_size)
  );
  return std::max(of_tokens, of_logits);
}

}  // namespace

WorkspaceBytes workspace_bytes(const ModelConfig& config, const WorkspaceLimits& limits) {
  const auto matrix = [](size_t num_rows, int64_t num_columns) {
    return num_rows * static_cast<size_t>(num_columns) * sizeof(float);
  };
  const int64_t head_part_size = config.num_head_parts ? config.head_size() : 0;
  return {
      .hidden = matrix(limits.num_tokens_max, config.hidden_size),
      .normed = matrix(limits.num_tokens_max, config.hidden_size),
      .qkv = matrix(limits.num_tokens_max, config.q_size() + 2 * config.kv_size()),
      .attention = matrix(limits.num_tokens_max, config.q_size()),
      .activation = matrix(limits.num_tokens_max, config.intermediate_size),
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

Rows ActivationBuffer::rows(size_t num_rows) {
  const std::span<float> values = buffer_.as<float>();
  CHECK(num_rows * num_columns_ <= values.size(), "the workspace holds that many rows");
  return {values.data(), num_rows, num_columns_, num_columns_};
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
      {space.logits_hidden, bytes.logits_hidden, config.hidden_size},
      {space.logits, bytes.logits, config.vocab_size},
      {space.head_part, bytes.head_part, config.head_size()},
  };
  for (const Part& part : parts) {
    Result<void> done = allocate_into(part.buffer, part.num_bytes, part.num_columns);
    if (!done) return done.error();
  }
  Result<Buffer> scratch = Buffer::allocate(bytes.attention_scratch);
  if (!scratch) return scratch.error();
  space.attention_scratch = *std::move(scratch);
  Result<Buffer> linear_scratch = Buffer::allocate(bytes.linear_scratch);
  if (!linear_scratch) return linear_scratch.error();
  space.linear_scratch = *std::move(linear_scratch);
  return space;
}

}  // namespace millrace
