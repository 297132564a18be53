// A model that several processes compute together, each with its part (shard.h), seen as one:
// rank 0 has the engine and tells the others of each batch.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "model/model_runner.h"
#include "parallel/process_group.h"

namespace millrace {

// Rank 0's. Its end is the end of follow_batches() on the others.
class TensorParallelRunner : public ModelRunner {
 public:
  // `part`: rank 0's part of the model; `group` is borrowed for the runner's life, and outlives it.
  TensorParallelRunner(std::unique_ptr<ModelRunner> part, ProcessGroup& group);
  ~TensorParallelRunner() override;
  TensorParallelRunner(const TensorParallelRunner&) = delete;
  TensorParallelRunner& operator=(const TensorParallelRunner&) = delete;

  int64_t vocab_size() const override { return part_->vocab_size(); }
  int64_t max_model_len() const override { return part_->max_model_len(); }
  int32_t block_size() const override { return part_->block_size(); }
  int32_t num_blocks() const override { return part_->num_blocks(); }
  int32_t num_hidden_slots() const override { return part_->num_hidden_slots(); }
  std::span<const float> forward(const ForwardBatch& batch) override;
  ThreadPool* idle_threads() override { return part_->idle_threads(); }

 private:
  std::unique_ptr<ModelRunner> part_;
  ProcessGroup& group_;
  std::vector<std::byte> message_;
};

// What the other ranks do with their part: every batch that rank 0 runs, until its runner ends.
void follow_batches(ModelRunner& part, ProcessGroup& group);

}  // namespace millrace
