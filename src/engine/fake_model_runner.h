// For tests: a model whose logits are a hash of the sequence's tokens, read back through the KV
// slots that it wrote. A wrong block table, slot or position, or state lost in a preemption,
// changes what it says; batching and chunking must not.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/rng.h"
#include "model/model_runner.h"
#include "sched/scheduler_config.h"

namespace millrace {

constexpr uint64_t kHashSeed = 20;

// Logits [vocab_size] that follow a sequence whose tokens hash to `hash`.
inline void append_hash_logits(uint64_t hash, size_t vocab_size, std::vector<float>& logits) {
  for (size_t token = 0; token < vocab_size; ++token) {
    logits.push_back(static_cast<float>(random_unit(hash, token) * 8.0 - 4.0));
  }
}

inline uint64_t extend_hash(uint64_t hash, TokenId token) {
  return mix64(hash ^ mix64(static_cast<uint64_t>(token) + 1));
}

class FakeModelRunner final : public ModelRunner {
 public:
  struct Options {
    int64_t vocab_size = 24;
    int64_t max_model_len = 64;
    int32_t block_size = 4;
    int32_t num_blocks = 64;
    int32_t num_tokens_max = std::numeric_limits<int32_t>::max();      // of one step
    int32_t num_logit_rows_max = std::numeric_limits<int32_t>::max();  // of one step
    std::optional<TokenId> poison;  // logits of a sequence that holds it are not numbers
    std::function<void()> on_forward;
  };
  explicit FakeModelRunner(Options options)
      : options_(std::move(options)),
        kv_(static_cast<size_t>(options_.num_blocks * options_.block_size)) {}

  int64_t vocab_size() const override { return options_.vocab_size; }
  int64_t max_model_len() const override { return options_.max_model_len; }
  int32_t block_size() const override { return options_.block_size; }
  int32_t num_blocks() const override { return options_.num_blocks; }
  int32_t num_hidden_slots() const override { return 0; }

  std::span<const float> forward(const ForwardBatch& batch) override {
    if (options_.on_forward) options_.on_forward();
    expect_consistent(batch);
    for (size_t i = 0; i < batch.token_ids.size(); ++i) {
      kv_[static_cast<size_t>(batch.slot_mapping[i])] = {batch.token_ids[i], batch.positions[i]};
    }
    logits_.clear();
    size_t row = 0;
    for (int32_t s = 0; s < batch.num_sequences(); ++s) append_sequence_logits(batch, s, row);
    EXPECT_EQ(row, batch.logit_rows.size()) << "logit rows are not in the order of the sequences";
    return logits_;
  }

 private:
  struct Slot {
    TokenId token = -1;
    int32_t position = -1;
  };

  int32_t slot(const ForwardBatch& batch, int32_t sequence, int32_t position) const {
    const int32_t block = batch.block_tables[static_cast<size_t>(
        sequence * batch.max_blocks_per_sequence + position / options_.block_size
    )];
    return block * options_.block_size + position % options_.block_size;
  }

  void append_sequence_logits(const ForwardBatch& batch, int32_t sequence, size_t& row) {
    const auto index = static_cast<size_t>(sequence);
    uint64_t hash = kHashSeed;
    bool is_poisoned = false;
    for (int32_t position = 0; position < batch.context_lens[index]; ++position) {
      const Slot& kv = kv_[static_cast<size_t>(slot(batch, sequence, position))];
      EXPECT_EQ(kv.position, position) << "a slot holds another token's K and V";
      hash = extend_hash(hash, kv.token);
      is_poisoned |= kv.token == options_.poison;
      const int32_t first_position = batch.positions[static_cast<size_t>(batch.cu_seqlens[index])];
      const int32_t token = batch.cu_seqlens[index] + position - first_position;
      if (row == batch.logit_rows.size() || batch.logit_rows[row] != token) continue;
      append_hash_logits(hash, static_cast<size_t>(options_.vocab_size), logits_);
      if (is_poisoned) logits_.back() = std::numeric_limits<float>::quiet_NaN();
      ++row;
    }
  }

  void expect_consistent(const ForwardBatch& batch) const {
    EXPECT_GT(batch.num_tokens(), 0);
    EXPECT_LE(batch.num_tokens(), options_.num_tokens_max);
    EXPECT_LE(batch.num_logits(), options_.num_logit_rows_max);
    ASSERT_EQ(batch.positions.size(), batch.token_ids.size());
    ASSERT_EQ(batch.slot_mapping.size(), batch.token_ids.size());
    ASSERT_EQ(batch.cu_seqlens.size(), batch.context_lens.size() + 1);
    ASSERT_EQ(batch.cu_seqlens.back(), batch.num_tokens());
    std::set<int32_t> blocks;  // no block belongs to two sequences
    for (int32_t s = 0; s < batch.num_sequences(); ++s) {
      const auto index = static_cast<size_t>(s);
      const int32_t length = batch.context_lens[index];
      for (int32_t i = batch.cu_seqlens[index]; i < batch.cu_seqlens[index + 1]; ++i) {
        const auto token = static_cast<size_t>(i);
        EXPECT_EQ(batch.positions[token], length - (batch.cu_seqlens[index + 1] - i));
        EXPECT_EQ(batch.slot_mapping[token], slot(batch, s, batch.positions[token]));
      }
      for (int32_t position = 0; position < length; position += options_.block_size) {
        EXPECT_TRUE(blocks.insert(slot(batch, s, position)).second) << "a block is used twice";
      }
    }
  }

  Options options_;
  std::vector<Slot> kv_;  // [num_blocks * block_size]
  std::vector<float> logits_;
};

}  // namespace millrace
