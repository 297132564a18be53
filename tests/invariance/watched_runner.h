// A model in the hands of an engine that believes it to be smaller, and what its batches were like.
#pragma once

#include <memory>

#include "mix.h"
#include "model/cpu_model.h"

namespace millrace {

class WatchedRunner final : public ModelRunner {
 public:
  struct Limits {
    int32_t num_blocks = 0;
    int32_t num_hidden_slots = 0;
  };
  // `totals` is borrowed.
  WatchedRunner(std::shared_ptr<CpuModel> model, const Limits& limits, MixTotals& totals)
      : model_(std::move(model)), limits_(limits), totals_(totals) {}

  int64_t vocab_size() const override { return model_->vocab_size(); }
  int64_t max_model_len() const override { return model_->max_model_len(); }
  int32_t block_size() const override { return model_->block_size(); }
  int32_t num_blocks() const override { return limits_.num_blocks; }
  int32_t num_hidden_slots() const override { return limits_.num_hidden_slots; }

  std::span<const float> forward(const ForwardBatch& batch) override {
    count(batch);
    return model_->forward(batch);
  }
  ThreadPool* idle_threads() override { return model_->idle_threads(); }

 private:
  void count(const ForwardBatch& batch) {
    ++totals_.num_batches;
    totals_.num_batches_without_tokens += batch.num_tokens() == 0 ? 1 : 0;
    totals_.num_block_copies += std::ssize(batch.block_copies);
    totals_.num_states_saved += std::ssize(batch.hidden_saves);
    bool has_short = false;
    bool has_long = false;
    for (int32_t s = 0; s < batch.num_sequences(); ++s) {
      const auto sequence = static_cast<size_t>(s);
      const int32_t end = batch.cu_seqlens[sequence + 1];
      const bool is_short = end - batch.cu_seqlens[sequence] == 1;
      has_short |= is_short;
      has_long |= !is_short;
      const bool is_read = std::ranges::find(batch.logit_rows, LogitRow::of_token(end - 1)) !=
                           batch.logit_rows.end();
      totals_.num_chunks += is_read ? 0 : 1;
    }
    totals_.num_mixed_batches += has_short && has_long ? 1 : 0;
  }

  std::shared_ptr<CpuModel> model_;
  Limits limits_;
  MixTotals& totals_;
};

}  // namespace millrace
