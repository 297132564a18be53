// Rows of hidden states on a device, float32: those that logits are made from, and those that are
// kept for later batches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

// Where a row of logits comes from (model/forward_batch.h, LogitRow).
struct RowSource {
  int32_t is_saved = 0;  // of the saved states, not of the batch
  int32_t index = 0;     // of the token in the batch, or of the slot
};

struct GatherRowsArgs {
  const float* hidden = nullptr;  // [num_tokens, width], device
  const float* saved = nullptr;   // [num_slots, width], device; null: no row is of it
  size_t width = 0;
  const RowSource* sources = nullptr;  // [num_rows], device
  size_t num_rows = 0;
  float* out = nullptr;  // [num_rows, width], device; overlaps neither
};

// out[i] = the row of sources[i]. No rows: nothing happens.
void gather_rows(StreamHandle stream, const GatherRowsArgs& args);

// As model/forward_batch.h has it.
struct RowSave {
  int32_t token = 0;
  int32_t slot = 0;
};

struct SaveRowsArgs {
  const float* hidden = nullptr;  // [num_tokens, width], device
  float* saved = nullptr;         // [num_slots, width], device
  size_t width = 0;
  const RowSave* saves = nullptr;  // [num_rows], device, each slot once
  size_t num_rows = 0;
};

// saved[slot] = hidden[token] for each. No rows: nothing happens.
void save_rows(StreamHandle stream, const SaveRowsArgs& args);

}  // namespace millrace::cuda
