// The tokens of a batch that the last layer finishes: those whose hidden state somebody wants, for
// logits or to be saved. Of all others that layer leaves keys and values alone, because nothing
// else of it is read, by them or by later tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "model/forward_batch.h"

namespace millrace {

// Of each sequence the tokens from the first that is wanted to the last, as rows without gaps.
struct OutputRows {
  std::vector<int32_t> tokens;      // [num_rows], ascending: indices in the batch
  std::vector<int32_t> positions;   // [num_rows], absolute
  std::vector<int32_t> cu_seqlens;  // [num_sequences + 1], first row of each sequence, and end
  std::vector<int32_t> row_of;      // [num_tokens], -1: no row

  size_t num_rows() const { return tokens.size(); }
};

// REQUIRES: cu_seqlens that cover the tokens, and logit rows and saves of tokens that exist.
OutputRows output_rows(const ForwardBatch& batch);

// The same for a batch of which all tokens are wanted.
OutputRows all_rows(const ForwardBatch& batch);

}  // namespace millrace
