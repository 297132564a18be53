// How much memory a model takes and what fits beside it, computed from its configuration alone: no
// weights are read. Sums are exact and count memory as the CPU backend lays it out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/quantized/quantization.h"
#include "model/coded_matrices.h"
#include "model/config.h"
#include "tensor/dtype.h"

namespace millrace {

struct MemoryPlanOptions {
  DType weight_dtype = DType::kBFloat16;
  std::optional<Quantization> quantization = {};  // as CpuModelOptions
  // Where codes are kept: which; null: those of all matrices, of 4 bits in groups of 64.
  std::shared_ptr<const CodedMatrices> coded = nullptr;
  DType kv_dtype = DType::kBFloat16;
  int64_t block_size = 16;                // token slots of a KV block
  int64_t max_num_batched_tokens = 2048;  // tokens of one step
  int64_t max_num_seqs = 128;             // sequences of one step, one row of logits each
  int64_t max_model_len = 0;              // 0: the model's max_position_embeddings
  int64_t num_threads = 1;                // each has scratch for attention
  int64_t available_bytes = 0;
};

// Bytes by component, as load_weights() lays them out. A matrix [N, K] is packed in panels of 16
// rows and takes round_up(N, 16) * K elements of the weight dtype; of bfloat16 12 bits a weight and
// a table a panel, or 16 bits, and room for exceptions, half a bit a weight (packed_matrix.h). q, k
// and v are one matrix. Norms and biases are float32. Tied embeddings are stored once, as
// `embedding`. With quantization, matrices take QuantizedMatrix::num_bytes(), save the embedding
// and routers; the head is WeightFormat::of_head(), and stored apart where it is tied.
struct WeightBytes {
  int64_t embedding = 0;
  int64_t attention = 0;  // q, k, v, o and their biases
  int64_t mlp = 0;        // of dense layers
  int64_t experts = 0;    // routed and shared
  int64_t router = 0;     // router and shared-expert gate
  int64_t norms = 0;
  int64_t lm_head = 0;

  int64_t total() const { return embedding + attention + mlp + experts + router + norms + lm_head; }
};

// Scratch of one forward pass: the buffers of workspace.h. T = max_num_batched_tokens,
// S = min(max_num_seqs, T), H = hidden_size, Q and KV the sizes of all heads, I the widest
// feed-forward network of a layer, E experts of which k are chosen.
struct ActivationBytes {
  int64_t hidden = 0;     // [T, H], the residual stream
  int64_t normed = 0;     // [T, H], input of a block, and output of the one before
  int64_t qkv = 0;        // [T, Q + 2 KV]
  int64_t attention = 0;  // [T, Q]
  int64_t mlp = 0;        // [T, I]; with experts at least [T * k, expert_intermediate_size]
  int64_t experts = 0;    // [T * k, H] inputs of experts, then what they say
  int64_t scores = 0;     // a tile of queries and results of splits, for each thread
  int64_t inputs = 0;     // [T, widest of Q, H, I] as the matrices' type wants them, and a few
                          // unpacked panels for each thread; or none. With experts for
                          // 2 T * k rows of them, if that is more
  int64_t router = 0;     // [T, E] scores, and each route's expert, weight and row
  int64_t logits = 0;  // [S, vocab_size] and the hidden rows [S, H] they come from; this process's
                       // part of them, where the head is shared
  int64_t rope = 0;    // [max_model_len, head_dim], cosine and sine

  int64_t total() const {
    return hidden + normed + qkv + attention + mlp + experts + scores + inputs + router + logits +
           rope;
  }
};

// How many sequences of one length the KV blocks hold at once.
struct SequenceCapacity {
  int64_t num_tokens = 0;
  int64_t num_sequences = 0;
};

struct MemoryPlan {
  MemoryPlanOptions options;
  int64_t max_model_len = 0;
  int64_t num_parameters = 0;
  WeightBytes weights;
  ActivationBytes activations;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_bytes_per_block = 0;
  int64_t hidden_bytes_per_block = 0;  // each comes with a slot for a hidden state
  int64_t num_blocks = 0;     // that fit beside weights and activations; 0 when those do not fit
  int64_t missing_bytes = 0;  // until one sequence of max_model_len fits; 0 when it does
  std::vector<SequenceCapacity> capacities;  // by length, ascending; the last is max_model_len

  int64_t bytes_per_block() const { return kv_bytes_per_block + hidden_bytes_per_block; }
  int64_t fixed_bytes() const { return weights.total() + activations.total(); }
};

// kInvalidArgument, `where` naming the option, when an option is out of its range. A model that
// does not fit is no error: the plan says what is missing.
Result<MemoryPlan> plan_memory(const ModelConfig& config, const MemoryPlanOptions& options);

// kResourceExhausted when weights and scratch alone do not fit; it says in which formats they
// would.
Result<void> check_weights_fit(const ModelConfig& config, const MemoryPlan& plan);

// kResourceExhausted when a KV cache of the size that was asked for does not fit beside weights and
// scratch. REQUIRES: those fit.
Result<void> check_kv_cache_fits(const MemoryPlan& plan, int64_t kv_cache_bytes);

// A few readable lines, each ending in a newline.
std::string format_plan(const MemoryPlan& plan);

}  // namespace millrace
