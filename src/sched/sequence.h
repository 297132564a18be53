// One of the n sequences of a request: a growing list of tokens, of which some are computed, that
// is, have their K and V in the sequence's blocks, or will have when the step in flight is over.
// There is no prefill and no decode state: what a
// sequence needs is the difference between two counters. Changed by the scheduler only; everyone
// else holds it const. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/block_table.h"
#include "cache/prefix_cache.h"
#include "sched/finished_event.h"
#include "sched/request.h"

namespace millrace {

// Who goes first: the lesser one. Total, so that a plan depends on nothing but its input.
struct Precedence {
  int32_t priority = 0;  // of the request, or 0 for all under first come, first served
  uint64_t arrival = 0;  // how many requests were added before
  int32_t choice = 0;
  friend auto operator<=>(const Precedence&, const Precedence&) = default;
};

enum class SequenceState {
  kHeld,  // another choice of the request computes the prompt that they share
  kWaiting,
  kRunning,
  kFinished,
};

class Sequence {
 public:
  struct Options {
    Precedence precedence;
    int32_t num_tokens_max = 0;  // of prompt and output together
    int32_t block_size = 0;
  };
  // `request` is borrowed and outlives the sequence.
  Sequence(const Request& request, const Options& options);

  const Request& request() const { return *request_; }
  int32_t choice() const { return precedence_.choice; }
  const Precedence& precedence() const { return precedence_; }
  SequenceState state() const { return state_; }
  const BlockTable& blocks() const { return blocks_; }
  const SequenceTimings& timings() const { return timings_; }

  // The tokens that are known.
  std::span<const TokenId> output() const {
    return std::span(output_).first(static_cast<size_t>(num_output_tokens()));
  }
  TokenView tokens() const { return {.prompt = request_->prompt, .output = output()}; }

  // Guesses at the tokens after the last, which the step computes as well. There are some between a
  // plan and its commit only.
  std::span<const TokenId> drafts() const { return std::span(output_).last(num_drafts_); }
  int32_t num_drafts() const { return static_cast<int32_t>(num_drafts_); }

  // The output as it will be if the first `num_drafts` of them are right. A pending token is part
  // of it, and its id means nothing. REQUIRES: 0 <= num_drafts <= this->num_drafts().
  std::span<const TokenId> output_with_drafts(int32_t num_drafts) const {
    const size_t num_outputs = output_.size() - num_drafts_;
    return std::span(output_).first(num_outputs + static_cast<size_t>(num_drafts));
  }

  // After its known tokens there may be one that a step in flight chooses: it counts as a token,
  // and nobody knows it before that step is settled. Which row of that step's logits chooses it.
  std::optional<int32_t> pending_row() const { return pending_row_; }
  bool is_pending(int32_t position) const {
    return pending_row_.has_value() && position == num_tokens() - 1;
  }

  // Drafts follow the output. REQUIRES: 0 <= position < num_tokens() + num_drafts(), not pending.
  TokenId token(int32_t position) const;

  int32_t num_prompt_tokens() const { return num_prompt_tokens_; }
  int32_t num_output_tokens() const {  // known ones
    return static_cast<int32_t>(output_.size() - num_drafts_) - (pending_row_ ? 1 : 0);
  }
  int32_t num_tokens() const {
    return num_prompt_tokens() + static_cast<int32_t>(output_.size() - num_drafts_);
  }
  int32_t num_tokens_max() const { return num_tokens_max_; }
  bool is_full() const { return num_tokens() == num_tokens_max_; }  // its last token is its end

  // With those that a step in flight computes; and without.
  int32_t num_computed_tokens() const { return num_computed_; }
  int32_t num_settled_tokens() const { return num_settled_; }
  bool is_in_flight() const { return is_in_flight_; }

  // How many tokens it would like the next step to compute.
  int32_t num_wanted_tokens() const { return num_tokens() + num_drafts() - num_computed_; }

  // While it waits after a preemption: how many tokens it had computed.
  int32_t num_tokens_given_up() const { return num_given_up_; }

  // Logits are wanted for the tokens from this position on: those of the last token choose the next
  // one; those before it give prompt logprobs. What has been read once is not read again, so a
  // sequence that is recomputed after a preemption repeats nothing.
  int32_t first_position_with_logits() const { return num_logits_read_; }

  // How many of the next `num_tokens` tokens have logits that are wanted; they are the last ones.
  int32_t num_logit_rows(int32_t num_tokens) const;

  // How many of its tokens may come from a prefix cache: all, if it wants the logits of the last
  // one only (they can be had from a saved hidden state), or those without logits.
  int32_t num_tokens_cacheable() const;

  // --- For the scheduler ---

  PrefixCache::Prefix prefix() { return {.tokens = tokens(), .hashes = hashes_}; }

  void hold() { state_ = SequenceState::kHeld; }
  void let_go() { state_ = SequenceState::kWaiting; }

  // waiting -> running. `match`: what is computed already; its blocks, or a copy, are to be
  // appended.
  void start(const PrefixMatch& match, TimePoint now);
  std::vector<BlockId> preempt();  // running -> waiting, nothing computed
  std::vector<BlockId> finish();   // -> finished
  void append_blocks(std::span<const BlockId> blocks) { blocks_.append(blocks); }

  // REQUIRES: it runs, and has none yet.
  void set_drafts(std::span<const TokenId> drafts);
  // Forgets them. What was computed of those that turn out right is said by append_output(),
  // advance() and settle(), one after the other.
  void drop_drafts();
  // The blocks behind the computed tokens, which drafts were given.
  std::vector<BlockId> take_blocks_unused();

  // A step in flight computes these. Returns how many of them for the first time.
  int32_t advance(int32_t num_tokens);
  // The step also chooses the next token, from this row: it is pending from now on.
  // REQUIRES: all tokens are computed.
  void await_output(int32_t row);
  // The step is over: what it computed is there, unless the sequence was preempted meanwhile.
  void settle() {
    num_settled_ = num_computed_;
    is_in_flight_ = false;
  }

  // Full blocks that are settled; and those of them that the prefix cache knows.
  int32_t num_blocks_settled() const { return num_settled_ / blocks_.block_size(); }
  int32_t num_blocks_kept() const { return num_blocks_kept_; }
  void note_kept(BlockId block);  // the next of them, in this block from now on

  void cancel() { is_cancelled_ = true; }  // ends with the next plan
  bool is_cancelled() const { return is_cancelled_; }
  // The pending token, or the next one. REQUIRES: it is pending, or all tokens are computed.
  void append_output(TokenId token, TimePoint now);

  // CHECKs that counters and blocks fit together.
  void check_invariants() const;

 private:
  void expect_next_token() const;

  // What every step reads of everyone comes first.
  const Request* request_;
  Precedence precedence_;
  int32_t num_prompt_tokens_;  // here too: the request is elsewhere
  int32_t num_tokens_max_;
  SequenceState state_ = SequenceState::kWaiting;
  bool is_in_flight_ = false;
  bool is_cancelled_ = false;
  int32_t num_computed_ = 0;
  int32_t num_settled_ = 0;
  int32_t num_computed_max_ = 0;  // before a preemption, if that was more
  int32_t num_logits_read_ = 0;
  std::optional<int32_t> pending_row_;
  size_t num_drafts_ = 0;
  // With a pending token, or drafts. The prompt is the request's, shared by its sequences.
  std::vector<TokenId> output_;
  BlockTable blocks_;
  int32_t num_blocks_kept_ = 0;
  int32_t num_given_up_ = 0;
  PrefixHashes hashes_;
  SequenceTimings timings_;
};

}  // namespace millrace
