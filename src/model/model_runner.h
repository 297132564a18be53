// What the engine asks of a model: one forward pass over a batch. The seam where the CPU model, the
// CUDA model and the simulated models of tests meet. Called by the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/forward_batch.h"
#include "sampling/sampler.h"

namespace millrace {

struct StepResult {
  // [number of rows without a draw, vocab_size], in the order of batch.logit_rows.
  std::span<const float> logits;
  // Of the rows with a draw, in that order. nullopt: the row's logits are not all finite.
  std::span<const std::optional<SampledToken>> drawn;
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual int64_t vocab_size() const = 0;

  // Longest sequence the model was made for.
  virtual int64_t max_model_len() const = 0;

  virtual int32_t block_size() const = 0;  // token slots of a KV block
  virtual int32_t num_blocks() const = 0;  // KV blocks that exist

  // Hidden states that it can keep: 0 .. num_hidden_slots() - 1.
  virtual int32_t num_hidden_slots() const = 0;

  // Copies the blocks that `batch` names, runs every token of it, writes their K and V into their
  // slots, keeps the hidden states that it names, and returns the logits of batch.logit_rows, in
  // that order: [num_logits, vocab_size] float32, valid until the next call. Logits of a token
  // depend on its sequence alone, never on its neighbours or on the chunking; those of a saved
  // state are those of the token it was saved of, to the bit.
  // REQUIRES: nothing is launched; the batch has no draws and nothing pending.
  virtual std::span<const float> forward(const ForwardBatch& batch) = 0;

  // Whether launch() takes draws and pending tokens, and a second batch before the first was waited
  // for.
  virtual bool draws_tokens() const { return false; }

  // forward() in two halves. Launches are computed in their order; wait() returns the results of
  // the first that was not waited for, valid until the next launch(). At most two are launched at
  // once, and one where the runner draws no tokens.
  virtual void launch(const ForwardBatch& batch) { launched_ = forward(batch); }
  virtual StepResult wait() { return {.logits = launched_, .drawn = {}}; }

  // Threads that compute batches, and do nothing between wait() and the next launch(): until then
  // whoever works on the results may use them. nullptr: there are none, as where the next batch is
  // launched before the results are there.
  virtual ThreadPool* idle_threads() { return nullptr; }

 private:
  std::span<const float> launched_;
};

}  // namespace millrace
