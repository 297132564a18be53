// For tests: a model whose logits are a hash of the sequence's tokens, read back through the KV
// slots that it wrote. A wrong block table, slot or position, a block that is shared with another
// prefix, or state lost in a preemption, changes what it says; batching, chunking, block copies and
// saved states must not.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "model/model_runner.h"
#include "sched/scheduler_config.h"

namespace millrace {

constexpr uint64_t kHashSeed = 20;

// What a fake model says after a sequence: noise from -4 to 4 that depends on all of its tokens;
// and a habit of saying the same after the same token, of this many units, so that text repeats
// itself.
struct FakeVoice {
  size_t vocab_size = 0;
  float habit = 0.0F;
};

// What stands for the hidden state of a token.
struct FakeState {
  uint64_t hash = kHashSeed;
  TokenId last = 0;
};

// Logits [vocab_size] that follow the state.
inline void append_fake_logits(
    const FakeState& state, const FakeVoice& voice, std::vector<float>& logits
) {
  const size_t begin = logits.size();
  for (size_t token = 0; token < voice.vocab_size; ++token) {
    logits.push_back(static_cast<float>(random_unit(state.hash, token) * 8.0 - 4.0));
  }
  const uint64_t next = mix64(static_cast<uint64_t>(state.last)) % voice.vocab_size;
  logits[begin + static_cast<size_t>(next)] += voice.habit;
}

inline void extend(FakeState& state, TokenId token) {
  state.hash = mix64(state.hash ^ mix64(static_cast<uint64_t>(token) + 1));
  state.last = token;
}

class FakeModelRunner final : public ModelRunner {
 public:
  struct Options {
    int64_t vocab_size = 24;
    float habit = 0.0F;
    int64_t max_model_len = 64;
    int32_t block_size = 4;
    int32_t num_blocks = 64;
    int32_t num_hidden_slots = 0;
    int32_t num_tokens_max = std::numeric_limits<int32_t>::max();      // of one step
    int32_t num_logit_rows_max = std::numeric_limits<int32_t>::max();  // of one step
    std::optional<TokenId> poison;  // logits of a sequence that holds it are not numbers
    std::function<void()> on_forward;
  };
  explicit FakeModelRunner(Options options)
      : options_(std::move(options)),
        kv_(static_cast<size_t>(options_.num_blocks * options_.block_size)),
        saved_(static_cast<size_t>(options_.num_hidden_slots)),
        num_users_(static_cast<size_t>(options_.num_blocks)) {}

  int64_t vocab_size() const override { return options_.vocab_size; }
  int64_t max_model_len() const override { return options_.max_model_len; }
  int32_t block_size() const override { return options_.block_size; }
  int32_t num_blocks() const override { return options_.num_blocks; }
  int32_t num_hidden_slots() const override { return options_.num_hidden_slots; }

  std::span<const float> forward(const ForwardBatch& batch) override {
    if (options_.on_forward) options_.on_forward();
    expect_consistent(batch);
    for (const KvBlockCopy& copy : batch.block_copies) copy_block(copy);
    for (size_t i = 0; i < batch.token_ids.size(); ++i) {
      kv_[static_cast<size_t>(batch.slot_mapping[i])] = {batch.token_ids[i], batch.positions[i]};
    }
    states_.clear();
    for (int32_t s = 0; s < batch.num_sequences(); ++s) append_states(batch, s);
    logits_.clear();
    for (const LogitRow& row : batch.logit_rows) append_logits(state_of(row));
    for (const HiddenSave& save : batch.hidden_saves) {
      saved_.at(static_cast<size_t>(save.slot)) = states_.at(static_cast<size_t>(save.token));
    }
    return logits_;
  }

 private:
  struct Slot {
    TokenId token = -1;
    int32_t position = -1;
  };
  struct State : FakeState {
    bool is_poisoned = false;
  };

  int32_t slot(const ForwardBatch& batch, int32_t sequence, int32_t position) const {
    const int32_t block = batch.block_tables[static_cast<size_t>(
        sequence * batch.max_blocks_per_sequence + position / options_.block_size
    )];
    return block * options_.block_size + position % options_.block_size;
  }

  void copy_block(const KvBlockCopy& copy) {
    const auto size = static_cast<size_t>(options_.block_size);
    std::copy_n(
        kv_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(copy.from) * size),
        size,
        kv_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(copy.to) * size)
    );
  }

  // The states of a sequence's tokens in the batch, from all that its blocks hold before them.
  void append_states(const ForwardBatch& batch, int32_t sequence) {
    const auto index = static_cast<size_t>(sequence);
    const int32_t length = batch.context_lens[index];
    const int32_t num_tokens = batch.cu_seqlens[index + 1] - batch.cu_seqlens[index];
    State state;
    for (int32_t position = 0; position < length; ++position) {
      const Slot& kv = kv_[static_cast<size_t>(slot(batch, sequence, position))];
      EXPECT_EQ(kv.position, position) << "a slot holds another token's K and V";
      extend(state, kv.token);
      state.is_poisoned |= kv.token == options_.poison;
      if (position >= length - num_tokens) states_.push_back(state);
    }
  }

  State state_of(const LogitRow& row) const {
    const auto index = static_cast<size_t>(row.index);
    if (row.source == LogitRow::Source::kToken) return states_.at(index);
    EXPECT_TRUE(saved_.at(index).has_value()) << "a hidden slot is read that nothing was saved in";
    return saved_[index].value_or(State());
  }

  void append_logits(const State& state) {
    const auto vocab_size = static_cast<size_t>(options_.vocab_size);
    append_fake_logits(state, {.vocab_size = vocab_size, .habit = options_.habit}, logits_);
    if (state.is_poisoned) logits_.back() = std::numeric_limits<float>::quiet_NaN();
  }

  void expect_consistent(const ForwardBatch& batch) {
    EXPECT_GT(batch.num_tokens() + batch.num_logits(), 0);
    EXPECT_LE(batch.num_tokens(), options_.num_tokens_max);
    EXPECT_LE(batch.num_logits(), options_.num_logit_rows_max);
    ASSERT_EQ(batch.positions.size(), batch.token_ids.size());
    ASSERT_EQ(batch.slot_mapping.size(), batch.token_ids.size());
    ASSERT_EQ(batch.cu_seqlens.size(), batch.context_lens.size() + 1);
    ASSERT_EQ(batch.cu_seqlens.back(), batch.num_tokens());
    for (int32_t s = 0; s < batch.num_sequences(); ++s) {
      const auto index = static_cast<size_t>(s);
      const int32_t length = batch.context_lens[index];
      EXPECT_GT(batch.cu_seqlens[index + 1], batch.cu_seqlens[index]) << "a sequence of no tokens";
      for (int32_t i = batch.cu_seqlens[index]; i < batch.cu_seqlens[index + 1]; ++i) {
        const auto token = static_cast<size_t>(i);
        EXPECT_EQ(batch.positions[token], length - (batch.cu_seqlens[index + 1] - i));
        EXPECT_EQ(batch.slot_mapping[token], slot(batch, s, batch.positions[token]));
      }
    }
    expect_shared_blocks_are_read_only(batch);
    expect_hidden_slots_exist(batch);
  }

  // Sequences of one batch may share blocks, to read them. What is written, by a token or a copy,
  // belongs to one sequence alone.
  void expect_shared_blocks_are_read_only(const ForwardBatch& batch) {
    std::fill(num_users_.begin(), num_users_.end(), 0);
    std::vector<int32_t> blocks;
    for (int32_t s = 0; s < batch.num_sequences(); ++s) {
      blocks.clear();
      const int32_t length = batch.context_lens[static_cast<size_t>(s)];
      for (int32_t position = 0; position < length; position += options_.block_size) {
        blocks.push_back(slot(batch, s, position) / options_.block_size);
        ++num_users_[static_cast<size_t>(blocks.back())];
      }
      std::sort(blocks.begin(), blocks.end());
      EXPECT_EQ(std::adjacent_find(blocks.begin(), blocks.end()), blocks.end())
          << "a block is twice in one table";
    }
    for (const int32_t written : batch.slot_mapping) {
      EXPECT_EQ(num_users_[static_cast<size_t>(written / options_.block_size)], 1)
          << "a token is written into a block that sequences share";
    }
    for (const KvBlockCopy& copy : batch.block_copies) {
      EXPECT_NE(copy.from, copy.to);
      EXPECT_LE(num_users_[static_cast<size_t>(copy.to)], 1)
          << "a block is copied over one that sequences share";
    }
  }

  void expect_hidden_slots_exist(const ForwardBatch& batch) const {
    std::vector<int32_t> slots;
    for (const HiddenSave& save : batch.hidden_saves) {
      EXPECT_TRUE(save.token >= 0 && save.token < batch.num_tokens());
      EXPECT_TRUE(save.slot >= 0 && save.slot < options_.num_hidden_slots);
      EXPECT_EQ(std::find(slots.begin(), slots.end(), save.slot), slots.end())
          << "two states are saved in one slot";
      slots.push_back(save.slot);
    }
    for (const LogitRow& row : batch.logit_rows) {
      const bool is_of_token = row.source == LogitRow::Source::kToken;
      EXPECT_GE(row.index, 0);
      EXPECT_LT(row.index, is_of_token ? batch.num_tokens() : options_.num_hidden_slots);
    }
  }

  Options options_;
  std::vector<Slot> kv_;                     // [num_blocks * block_size]
  std::vector<std::optional<State>> saved_;  // [num_hidden_slots]
  std::vector<int32_t> num_users_;           // [num_blocks], sequences of the batch
  std::vector<State> states_;                // [num_tokens] of the batch
  std::vector<float> logits_;
};

}  // namespace millrace
