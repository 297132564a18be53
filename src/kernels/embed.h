// Rows of the embedding table, from the matrix as it is multiplied: with tied embeddings it is also
// the output head, and there is no second copy. Pure copying, so there is one version for every
// processor.
#pragma once

#include <span>

#include "base/id.h"
#include "kernels/executor.h"
#include "kernels/quantized/weight_matrix.h"
#include "kernels/rows.h"

namespace millrace {

struct EmbedArgs {
  std::span<const TokenId> token_ids;  // [num_tokens], each within the table
  const WeightMatrix& table;           // [vocab_size, hidden]
  Rows out;                            // [num_tokens, hidden]
};

void embed(const Executor& executor, const EmbedArgs& args);

}  // namespace millrace
