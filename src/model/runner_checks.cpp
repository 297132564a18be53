#include "model/runner_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"

namespace millrace {
namespace {

// The largest head_dim of a model that the operators are tested with.
constexpr int64_t kHeadDimMax = 256;

void check_sequence(const ForwardBatch& batch, size_t sequence, const RunnerLimits& limits) {
  const int32_t begin = batch.cu_seqlens[sequence];
  const int32_t end = batch.cu_seqlens[sequence + 1];
  const int32_t context = batch.context_lens[sequence];
  CHECK(begin < end, "a sequence of the batch has tokens");
  CHECK(context <= limits.max_model_len, "no longer context than at load");
  CHECK(
      div_ceil(context, limits.block_size) <= batch.max_blocks_per_sequence,
      "the block table covers the context"
  );
  const auto row = static_cast<size_t>(batch.max_blocks_per_sequence) * sequence;
  for (int32_t i = begin; i < end; ++i) {
    const auto token = static_cast<size_t>(i);
    const int32_t position = batch.positions[token];
    CHECK(position == context - (end - i), "the tokens are the last of their context, in order");
    CHECK(position >= 0, "positions count from 0");
    const auto block_index = static_cast<size_t>(position / limits.block_size);
    const int32_t block = batch.block_tables[row + block_index];
    CHECK(block >= 0 && block < limits.num_blocks, "a block that exists");
    CHECK(
        batch.slot_mapping[token] == block * limits.block_size + position % limits.block_size,
        "the slot is where the block table says"
    );
  }
}

void check_sequences(const ForwardBatch& batch, const RunnerLimits& limits) {
  const size_t num_tokens = batch.token_ids.size();
  const size_t num_sequences = batch.context_lens.size();
  CHECK(batch.positions.size() == num_tokens, "one position a token");
  CHECK(batch.slot_mapping.size() == num_tokens, "one slot a token");
  CHECK(batch.cu_seqlens.size() == num_sequences + 1, "one start a sequence, and the end");
  CHECK(
      batch.cu_seqlens.front() == 0 && batch.cu_seqlens.back() == batch.num_tokens(),
      "the sequences cover the tokens"
  );
  CHECK(num_sequences == 0 || batch.max_blocks_per_sequence > 0, "block tables have columns");
  CHECK(
      batch.block_tables.size() ==
          num_sequences * static_cast<size_t>(batch.max_blocks_per_sequence),
      "one block table a sequence"
  );
  for (size_t sequence = 0; sequence < num_sequences; ++sequence)
    check_sequence(batch, sequence, limits);
}

void check_tokens(const ForwardBatch& batch, int64_t vocab_size) {
  size_t num_pending = 0;
  for (const TokenId id : batch.token_ids) {
    if (id == kPendingToken) ++num_pending;
    CHECK(id == kPendingToken || (id >= 0 && id < vocab_size), "a token of the vocabulary");
  }
  CHECK(num_pending == batch.pending.size(), "somebody draws each token that is not known yet");
  std::vector<bool> is_named(batch.pending.empty() ? 0 : batch.token_ids.size());
  for (const PendingToken& pending : batch.pending) {
    const auto token = static_cast<size_t>(pending.token);
    CHECK(pending.token >= 0 && token < batch.token_ids.size(), "a token of this batch is pending");
    CHECK(batch.token_ids[token] == kPendingToken, "a token that is not known yet is pending");
    CHECK(!is_named[token], "each token is pending once");
    is_named[token] = true;
  }
}

void check_draws(const ForwardBatch& batch) {
  if (batch.draws.empty()) return;
  CHECK(batch.draws.size() == batch.logit_rows.size(), "one draw, or none, for each row of logits");
  for (const std::optional<DrawParams>& draw : batch.draws) {
    if (!draw) continue;
    CHECK(draw->unit >= 0.0 && draw->unit < 1.0, "a random number in [0, 1)");
    CHECK(draw->temperature >= 0.0F && draw->top_k >= 0, "parameters of draw_params()");
    CHECK(draw->logprobs.value_or(0) <= kDrawLogprobsMax, "no more logprobs than of a draw");
  }
}

void check_hidden(const ForwardBatch& batch, const RunnerLimits& limits) {
  const auto is_token = [&](int32_t index) { return index >= 0 && index < batch.num_tokens(); };
  const auto is_slot = [&](int32_t index) { return index >= 0 && index < limits.num_hidden_slots; };
  for (const LogitRow& row : batch.logit_rows) {
    const bool is_of_token = row.source == LogitRow::Source::kToken;
    CHECK(!is_of_token || is_token(row.index), "logits of a token of this batch");
    CHECK(is_of_token || is_slot(row.index), "logits of a hidden slot that exists");
  }
  // Two states in one slot would give one sequence the other's answer.
  for (auto save = batch.hidden_saves.begin(); save != batch.hidden_saves.end(); ++save) {
    CHECK(is_token(save->token), "the hidden state of a token of this batch is saved");
    CHECK(is_slot(save->slot), "a hidden state is saved in a slot that exists");
    const bool is_first = std::none_of(batch.hidden_saves.begin(), save, [&](const HiddenSave& b) {
      return b.slot == save->slot;
    });
    CHECK(is_first, "one hidden state a slot");
  }
}

}  // namespace

Result<void> check_runnable_model(const ModelConfig& config) {
  const int64_t sizes[] = {
      config.hidden_size,
      config.intermediate_size,
      config.num_layers,
      config.num_heads,
      config.num_kv_heads,
      config.vocab_size};
  if (std::ranges::min(sizes) <= 0) return invalid_argument("a size of the model is not positive");
  if (config.num_heads % config.num_kv_heads != 0) {
    return invalid_argument(fmt::format(
        "{} attention heads cannot share {} KV heads", config.num_heads, config.num_kv_heads
    ));
  }
  if (config.head_dim <= 0 || config.head_dim % 2 != 0 || config.head_dim > kHeadDimMax) {
    return unsupported(fmt::format(
        "head_dim is {}, expected an even number up to {}", config.head_dim, kHeadDimMax
    ));
  }
  return {};
}

Result<void> check_dense_model(const ModelConfig& config, std::string_view what) {
  if (!config.moe) return {};
  return unsupported(fmt::format("{} models cannot be {} yet", name_of(config.family), what));
}

Result<void> check_limits(const RunnerLimits& limits) {
  const std::pair<std::string_view, int32_t> positive[] = {
      {"max_model_len", limits.max_model_len},
      {"max_num_batched_tokens", limits.max_num_batched_tokens},
      {"max_num_logits", limits.max_num_logits},
  };
  for (const auto& [name, value] : positive) {
    if (value <= 0)
      return invalid_argument(fmt::format("{} is {}, expected 1 or more", name, value));
  }
  if (limits.num_hidden_slots >= 0) return {};
  return invalid_argument(
      fmt::format("num_hidden_slots is {}, expected 0 or more", limits.num_hidden_slots)
  );
}

void check_batch(const ForwardBatch& batch, int64_t vocab_size, const RunnerLimits& limits) {
  CHECK(batch.num_tokens() > 0 || batch.num_logits() > 0, "a batch has something to compute");
  CHECK(batch.num_tokens() <= limits.max_num_batched_tokens, "no more tokens than at load");
  CHECK(batch.num_logits() <= limits.max_num_logits, "no more logits than at load");
  check_tokens(batch, vocab_size);
  check_draws(batch);
  check_sequences(batch, limits);
  check_hidden(batch, limits);
}

}  // namespace millrace
