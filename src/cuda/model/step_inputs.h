// What a step's kernels are told of its batch, on the device: one piece of pinned memory, filled on
// the host, and one copy. Two such pieces take turns, so that a step can be prepared while the
// device has yet to read the one before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "cuda/device_buffer.h"
#include "cuda/kernels/copy_blocks.h"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/hidden_rows.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/pinned_buffer.h"
#include "cuda/stream.h"
#include "model/forward_batch.h"

namespace millrace::cuda {

// How many of each there are, padding included.
struct StepShape {
  size_t num_tokens = 0;
  size_t num_sequences = 0;               // those of padding have no tokens
  size_t num_blocks_per_sequence = 0;     // columns of the block tables
  size_t num_tiles = 0;                   // of attention
  size_t tile_rows = kAttentionTileRows;  // or kWideAttentionRows
  size_t num_logits = 0;
  size_t num_block_copies = 0;
  size_t num_hidden_saves = 0;
  size_t num_draws = 0;         // rows of logits that a token is drawn from
  size_t num_logprob_rows = 0;  // those of them whose logprobs are wanted
  size_t num_pending = 0;       // tokens that the step before draws
  // Token i is sequence i's only one, or padding. As many tokens as sequences do not say so: of a
  // graph of layers' both are the most that there may be.
  bool is_decode = false;

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

// The batch's own. `group`: query heads of a KV head.
StepShape shape_of(const ForwardBatch& batch, size_t group);

// Addresses on the device. They follow from the shape alone, so that a graph of one shape finds the
// next step's inputs where it found those of the last.
struct StepView {
  StepShape shape;
  int32_t* token_ids = nullptr;              // [num_tokens], pending ones to be filled in
  const int32_t* positions = nullptr;        // [num_tokens]
  const int32_t* slots = nullptr;            // [num_tokens]
  const int32_t* cu_seqlens = nullptr;       // [num_sequences + 1]
  const int32_t* block_tables = nullptr;     // [num_sequences, num_blocks_per_sequence]
  const AttentionTile* tiles = nullptr;      // [num_tiles]
  const RowSource* logit_sources = nullptr;  // [num_logits]
  const BlockCopy* block_copies = nullptr;   // [num_block_copies]
  const RowSave* hidden_saves = nullptr;     // [num_hidden_saves]
  const DrawRow* draws = nullptr;            // [num_draws]
  const int32_t* logprob_rows = nullptr;     // [num_logprob_rows]
  const TokenOfDraw* pending = nullptr;      // [num_pending]
};

// Belongs to the engine thread.
class StepInputs {
 public:
  StepInputs() = default;
  // For every shape that is nowhere larger than `largest`. `padding_slot`: a token slot of the KV
  // cache that belongs to nobody.
  // kResourceExhausted: no memory, on the device or pinned.
  static Result<StepInputs> allocate(const StepShape& largest, int32_t padding_slot, size_t group);
  static size_t num_bytes(const StepShape& largest);

  // The batch, into the stream, and behind it until `shape` is full: tokens 0 at position 0 of no
  // sequence, that attention leaves out, and sequences of no tokens. `pending`: what decides the
  // batch's pending tokens. REQUIRES: the device has read all that was sent but the last; a shape
  // that holds the batch.
  StepView send(
      StreamHandle stream,
      const ForwardBatch& batch,
      std::span<const TokenOfDraw> pending,
      const StepShape& shape
  );

  // Where the next send() of the same shape will put it.
  StepView view(const StepShape& shape) const;

 private:
  std::array<PinnedBuffer, 2> hosts_;
  size_t num_sent_ = 0;
  DeviceBuffer device_;
  int32_t padding_slot_ = 0;
  size_t group_ = 1;  // query heads of a KV head
};

}  // namespace millrace::cuda
