#include "sched/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"

namespace millrace {

Sequence::Sequence(const Request& request, const Options& options)
    : request_(&request),
      precedence_(options.precedence),
      num_prompt_tokens_(static_cast<int32_t>(request.prompt.size())),
      num_tokens_max_(options.num_tokens_max),
      blocks_(options.block_size),
      hashes_(request.prefix_root) {
  CHECK(num_tokens_max_ > num_prompt_tokens(), "there is no room for a single output token");
  // The request has its prompt logprobs once, from the first of its sequences.
  const bool wants_prompt_logprobs =
      request.sampling.prompt_logprobs.has_value() && options.precedence.choice == 0;
  num_logits_read_ = wants_prompt_logprobs ? 0 : num_prompt_tokens() - 1;
  timings_.arrival = request.arrival;
  timings_.num_prompt_tokens = num_prompt_tokens();
}

TokenId Sequence::token(int32_t position) const {
  CHECK(position >= 0 && position < num_tokens() + num_drafts(), "no such token");
  CHECK(!is_pending(position), "a token that nobody knows yet");
  if (position < num_prompt_tokens()) return request_->prompt[static_cast<size_t>(position)];
  return output_[static_cast<size_t>(position - num_prompt_tokens())];
}

int32_t Sequence::num_logit_rows(int32_t num_tokens) const {
  const int32_t end = num_computed_ + num_tokens;
  return std::max(0, end - std::max(num_computed_, num_logits_read_));
}

int32_t Sequence::num_tokens_cacheable() const {
  return num_logits_read_ == num_tokens() - 1 ? num_tokens() : num_logits_read_;
}

void Sequence::start(const PrefixMatch& match, TimePoint now) {
  CHECK(state_ == SequenceState::kWaiting, "only a waiting sequence starts");
  CHECK(!is_in_flight_, "it would be computed twice at once");
  CHECK(match.num_tokens <= num_tokens_cacheable(), "logits were passed over");
  state_ = SequenceState::kRunning;
  num_computed_ = match.num_tokens;
  num_settled_ = match.num_tokens;
  num_computed_max_ = std::max(num_computed_max_, num_computed_);
  num_given_up_ = 0;
  num_blocks_kept_ = static_cast<int32_t>(match.blocks.size());
  blocks_.append(match.blocks);
  if (timings_.first_scheduled) return;
  timings_.first_scheduled = now;
  timings_.num_cached_tokens = match.num_tokens;
}

std::vector<BlockId> Sequence::preempt() {
  CHECK(state_ == SequenceState::kRunning, "only a running sequence is preempted");
  state_ = SequenceState::kWaiting;
  num_given_up_ = std::exchange(num_computed_, 0);
  num_settled_ = 0;
  num_blocks_kept_ = 0;
  ++timings_.num_preemptions;
  return blocks_.take_all();
}

void Sequence::set_drafts(std::span<const TokenId> drafts) {
  CHECK(state_ == SequenceState::kRunning && num_drafts_ == 0, "drafts of the step before");
  CHECK(!pending_row_, "guesses follow what is known");
  output_.insert(output_.end(), drafts.begin(), drafts.end());
  num_drafts_ = drafts.size();
}

void Sequence::drop_drafts() {
  output_.resize(output_.size() - num_drafts_);
  num_drafts_ = 0;
}

std::vector<BlockId> Sequence::take_blocks_unused() {
  CHECK(num_drafts_ == 0, "drafts have a use for them");
  return blocks_.take_from(div_ceil(num_computed_, blocks_.block_size()));
}

std::vector<BlockId> Sequence::finish() {
  CHECK(state_ != SequenceState::kFinished, "a sequence ends once");
  state_ = SequenceState::kFinished;
  return blocks_.take_all();
}

int32_t Sequence::advance(int32_t num_tokens) {
  CHECK(num_tokens >= 0 && num_tokens <= num_wanted_tokens(), "computed what nobody wanted");
  const int32_t num_again = std::min(num_tokens, num_computed_max_ - num_computed_);
  timings_.num_recomputed_tokens += num_again;
  num_computed_ += num_tokens;
  num_computed_max_ = std::max(num_computed_max_, num_computed_);
  num_logits_read_ = std::max(num_logits_read_, num_computed_);
  is_in_flight_ = true;
  return num_tokens - num_again;
}

void Sequence::await_output(int32_t row) {
  expect_next_token();
  output_.push_back(-1);
  pending_row_ = row;
}

void Sequence::expect_next_token() const {
  CHECK(
      num_drafts_ == 0 && num_wanted_tokens() == 0, "a token is chosen from the last one's logits"
  );
  CHECK(!is_full(), "the sequence is as long as it may be");
}

void Sequence::note_kept(BlockId block) {
  CHECK(num_blocks_kept_ < num_blocks_settled(), "a block that is not computed yet");
  blocks_.replace(num_blocks_kept_++, block);
}

void Sequence::append_output(TokenId token, TimePoint now) {
  if (pending_row_) {
    pending_row_.reset();
    output_.back() = token;
  } else {
    expect_next_token();
    output_.push_back(token);
  }
  timings_.num_output_tokens = num_output_tokens();
  if (!timings_.first_token) timings_.first_token = now;
  timings_.last_token = now;
}

void Sequence::check_invariants() const {
  CHECK(num_tokens() + num_drafts() <= num_tokens_max_, "a sequence outgrew its limit");
  CHECK(
      num_drafts_ == 0 || state_ == SequenceState::kRunning, "only a running sequence has drafts"
  );
  CHECK(!pending_row_ || num_drafts_ == 0, "guesses follow what is known");
  CHECK(num_computed_ >= 0 && num_computed_ <= num_tokens(), "computed tokens that do not exist");
  CHECK(num_settled_ >= 0 && num_settled_ <= num_computed_, "more settled than computed");
  CHECK(
      num_computed_ <= num_logits_read_ || num_computed_ == num_tokens(), "logits were passed over"
  );
  CHECK(num_logits_read_ <= num_tokens(), "logits of tokens that do not exist");
  CHECK(num_computed_max_ >= num_computed_, "more computed than ever was");
  CHECK(num_given_up_ <= num_computed_max_, "more given up than there was");
  CHECK(num_blocks_kept_ <= num_blocks_settled(), "blocks are kept that are not computed");
  if (!is_in_flight_ && state_ != SequenceState::kFinished) {
    CHECK(num_settled_ == num_computed_ && !pending_row_, "waits for a step that is over");
  }
  if (state_ == SequenceState::kRunning) {
    CHECK(num_computed_ <= blocks_.num_token_slots(), "computed tokens without a place");
    CHECK(
        blocks_.num_blocks() <= div_ceil(num_tokens() + num_drafts(), blocks_.block_size()),
        "blocks that no token is for"
    );
  } else {
    CHECK(blocks_.num_blocks() == 0, "only a running sequence holds blocks");
  }
  if (state_ == SequenceState::kWaiting || state_ == SequenceState::kHeld) {
    CHECK(num_computed_ == 0, "computed tokens without blocks");
  }
}

}  // namespace millrace
