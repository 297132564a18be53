// For tests: a model whose logits are a hash of the sequence's tokens, read back through the KV
// slots that it wrote. A wrong block table, slot or position, a block that is shared with another
// prefix, or state lost in a preemption, changes what it says; batching, chunking, block copies and
// saved states must not. It may draw tokens itself; then a launch is computed no sooner than it is
// waited for, so that nobody can know a token too early.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/fake_draw.h"
#include "engine/fake_voice.h"
#include "model/model_runner.h"
#include "sched/scheduler_config.h"

namespace millrace {

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
    bool draws_tokens = false;
    int64_t* num_launched_behind = nullptr;  // counts launches while another one is in flight
    ThreadPool* idle_threads = nullptr;      // borrowed
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

  bool draws_tokens() const override { return options_.draws_tokens; }
  ThreadPool* idle_threads() override { return options_.idle_threads; }

  ~FakeModelRunner() override { EXPECT_TRUE(launched_.empty()) << "a launch was not waited for"; }
  FakeModelRunner(const FakeModelRunner&) = delete;
  FakeModelRunner& operator=(const FakeModelRunner&) = delete;

  std::span<const float> forward(const ForwardBatch& batch) override {
    EXPECT_TRUE(launched_.empty() && batch.draws.empty() && batch.pending.empty());
    return compute(batch).logits;
  }

  void launch(const ForwardBatch& batch) override {
    launched_.push_back(batch);
    EXPECT_LE(launched_.size(), options_.draws_tokens ? 2U : 1U);
    if (options_.num_launched_behind && launched_.size() == 2) ++*options_.num_launched_behind;
    EXPECT_TRUE(options_.draws_tokens || (batch.draws.empty() && batch.pending.empty()));
  }

  StepResult wait() override {
    ForwardBatch batch = std::move(launched_.front());
    launched_.pop_front();
    for (const PendingToken& pending : batch.pending) resolve(pending, batch);
    return compute(batch);
  }

 private:
  struct Slot {
    TokenId token = -1;
    int32_t position = -1;
  };
  struct State : FakeState {
    bool is_poisoned = false;
  };

  // After a row of logits that are not numbers anything may follow: nobody uses it.
  void resolve(const PendingToken& pending, ForwardBatch& batch) const {
    TokenId& id = batch.token_ids.at(static_cast<size_t>(pending.token));
    EXPECT_EQ(id, kPendingToken) << "a pending token twice, or one that is known";
    const auto& drawn = drawn_rows_.at(static_cast<size_t>(pending.row));
    ASSERT_TRUE(drawn.has_value()) << "a token is taken from a row that none was drawn of";
    id = *drawn ? (**drawn).id : 0;
  }

  StepResult compute(const ForwardBatch& batch) {
    if (options_.on_forward) options_.on_forward();
    expect_consistent(batch);
    for (const KvBlockCopy& copy : batch.block_copies) copy_block(copy);
    for (size_t i = 0; i < batch.token_ids.size(); ++i) {
      kv_[static_cast<size_t>(batch.slot_mapping[i])] = {batch.token_ids[i], batch.positions[i]};
    }
    states_.clear();
    for (int32_t s = 0; s < batch.num_sequences(); ++s) append_states(batch, s);
    read_rows(batch);
    for (const HiddenSave& save : batch.hidden_saves) {
      saved_.at(static_cast<size_t>(save.slot)) = states_.at(static_cast<size_t>(save.token));
    }
    return {.logits = logits_, .drawn = drawn_};
  }

  int32_t slot(const ForwardBatch& batch, int32_t sequence, int32_t position) const {
    const int32_t block = batch.block_tables[static_cast<size_t>(
        sequence * batch.max_blocks_per_sequence + position / options_.block_size
    )];
    return block * options_.block_size + position % options_.block_size;
  }

  void copy_block(const KvBlockCopy& copy) {
    const int32_t size = options_.block_size;
    std::copy_n(kv_.begin() + copy.from * size, size, kv_.begin() + copy.to * size);
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

  void read_rows(const ForwardBatch& batch) {
    logits_.clear();
    drawn_.clear();
    drawn_rows_.assign(batch.logit_rows.size(), std::nullopt);
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const size_t begin = logits_.size();
      append_logits(state_of(batch.logit_rows[i]));
      if (batch.draws.empty() || !batch.draws[i]) continue;
      drawn_.push_back(fake_draw(std::span(logits_).subspan(begin), *batch.draws[i]));
      drawn_rows_[i] = drawn_.back();
      logits_.resize(begin);
    }
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
    ASSERT_TRUE(batch.draws.empty() || batch.draws.size() == batch.logit_rows.size());
    for (const TokenId id : batch.token_ids) EXPECT_NE(id, kPendingToken) << "nobody chooses it";
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
  std::vector<std::optional<SampledToken>> drawn_;
  std::vector<std::optional<std::optional<SampledToken>>> drawn_rows_;  // [rows]; none: not drawn
  std::deque<ForwardBatch> launched_;
};

}  // namespace millrace
