// All tokens of one step, flattened: the only thing a model sees of requests and scheduling.
// A value, built by the engine for each step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "sampling/draw.h"

namespace millrace {

// The K and V of a whole KV block, of all layers, copied over those of another.
struct KvBlockCopy {
  int32_t from = 0;
  int32_t to = 0;
  friend bool operator==(const KvBlockCopy&, const KvBlockCopy&) = default;
};

// The hidden state that a row of logits is made from: that of a token of the batch, or one that an
// earlier batch saved.
struct LogitRow {
  enum class Source { kToken, kHiddenSlot };
  Source source = Source::kToken;
  int32_t index = 0;  // of the token in the batch, or of the slot

  static LogitRow of_token(int32_t token) { return {Source::kToken, token}; }
  static LogitRow of_slot(int32_t slot) { return {Source::kHiddenSlot, slot}; }
  friend bool operator==(const LogitRow&, const LogitRow&) = default;
};

// A token of the batch that the batch launched before it draws, so that nobody has to know it yet:
// its entry of token_ids is kPendingToken.
struct PendingToken {
  int32_t token = 0;  // index in the batch
  int32_t row = 0;    // of the logit rows of the batch before
  friend bool operator==(const PendingToken&, const PendingToken&) = default;
};

constexpr TokenId kPendingToken = -1;

// Keeps the hidden state that the logits of a token of the batch are made from.
struct HiddenSave {
  int32_t token = 0;  // index in the batch
  int32_t slot = 0;
  friend bool operator==(const HiddenSave&, const HiddenSave&) = default;
};

// What happens in it, in this order: the copies, one after the other; the tokens; the logits; the
// saves. So a slot that is read and saved in one batch is read as it was before. A batch may have
// no tokens, only logits from saved states: a sequence whose every token is computed is none of its
// sequences.
struct ForwardBatch {
  std::vector<TokenId> token_ids;     // [num_tokens]
  std::vector<int32_t> positions;     // [num_tokens], absolute, from 0
  std::vector<int32_t> slot_mapping;  // [num_tokens], block * block_size + offset: where K and V go
  std::vector<int32_t> cu_seqlens;    // [num_sequences + 1], first token of each sequence, and end
  std::vector<int32_t> context_lens;  // [num_sequences], tokens in the KV cache after this step
  std::vector<int32_t> block_tables;  // [num_sequences, max_blocks_per_sequence], row-major
  int32_t max_blocks_per_sequence = 0;
  std::vector<LogitRow> logit_rows;  // [num_logits], whose logits are wanted
  // [num_logits], or empty: none. Of a row with an entry the token is wanted, not the logits.
  std::vector<std::optional<DrawParams>> draws;
  std::vector<PendingToken> pending;      // each token at most once
  std::vector<KvBlockCopy> block_copies;  // before anything else is read or written
  std::vector<HiddenSave> hidden_saves;   // each slot at most once

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_sequences() const { return static_cast<int32_t>(context_lens.size()); }
  int32_t num_logits() const { return static_cast<int32_t>(logit_rows.size()); }
};

}  // namespace millrace
