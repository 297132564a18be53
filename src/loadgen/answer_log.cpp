#include "loadgen/answer_log.h"

#include <algorithm>
#include <utility>

#include "loadgen/json_scan.h"

namespace millrace::bench {
namespace {

// A role, an end, and what servers send besides.
constexpr int64_t kChunksBeside = 4;
constexpr int64_t kReservedChunksMax = 1 << 16;

}  // namespace

void AnswerLog::start(RequestRecord& record, const AnswerLogOptions& options) {
  record_ = &record;
  options_ = options;
  is_whole_ = false;
  has_usage_deltas_ = true;
  has_ids_ = true;
  has_usage_in_events_ = false;
  usage_total_.reset();
  num_tokens_by_deltas_ = 0;
  has_uncounted_output_ = false;
  num_late_tokens_max_ = 0;
  num_ids_ = 0;
  num_output_events_ = 0;
  chunks_with_output_.clear();
  native_text_size_ = 0;
  native_text_.clear();
  answer_text_.clear();
  if (!options.keeps_chunks || !options.is_streamed) return;
  const int64_t num_planned =
      std::clamp<int64_t>(record.num_output_tokens_planned, 0, kReservedChunksMax);
  record.chunks.reserve(static_cast<size_t>(num_planned + kChunksBeside));
}

void AnswerLog::take_totals(const EventFields& event, Nanos now) {
  RequestRecord& record = *record_;
  record.ended = now;
  if (event.prompt_tokens) record.num_prompt_tokens = event.prompt_tokens;
  if (event.cached_tokens) record.num_cached_tokens = event.cached_tokens;
  if (event.completion_tokens) {
    usage_total_ = std::max(usage_total_.value_or(0), *event.completion_tokens);
  }
  if (!event.finish_reason.empty()) {
    record.finish_reason.clear();
    append_unescaped(event.finish_reason, record.finish_reason);
  }
}

int64_t AnswerLog::add_whole(const EventFields& answer, Nanos now) {
  is_whole_ = true;
  take_totals(answer, now);
  const int64_t num_tokens = count_tokens(answer, brings_output(answer));
  if (options_.keeps_text) keep_text(answer);
  if (num_tokens > 0) record_->last_token = now;
  return num_tokens;
}

int64_t AnswerLog::add(const EventFields& event, Nanos now) {
  RequestRecord& record = *record_;
  take_totals(event, now);
  if (!event.has_choices && !event.is_native) return 0;

  const bool has_output = brings_output(event);
  const int64_t num_tokens = count_tokens(event, has_output);
  if (options_.keeps_text) keep_text(event);
  if (!record.first_chunk) record.first_chunk = now;
  record.last_chunk = now;
  if (has_output && !record.first_text) record.first_text = now;
  if (has_output) last_text_ = now;
  const bool has_answer = has_output && (!event.text.empty() || event.has_other_output);
  if (has_answer && !record.first_answer) record.first_answer = now;
  if (num_tokens > 0) {
    if (!record.first_token) record.first_token = now;
    record.last_token = now;
  }
  if (options_.keeps_chunks) {
    record.chunks.push_back(Chunk::make(now, num_tokens));
    chunks_with_output_.push_back(has_output);
  }
  return num_tokens;
}

// Native texts are cumulative: the last event repeats what the one before said. With SGLang's
// --incremental-streaming-output they are not, and then the count of tokens tells.
bool AnswerLog::brings_output(const EventFields& event) {
  if (!event.is_native) return event.has_output();
  const bool is_new_text = event.text.size() != std::exchange(native_text_size_, event.text.size());
  const bool has_new_tokens = event.completion_tokens.value_or(0) > num_tokens_by_deltas_;
  return !event.text.empty() && (is_new_text || has_new_tokens);
}

int64_t AnswerLog::count_tokens(const EventFields& event, bool has_output) {
  if (has_output) {
    ++num_output_events_;
    has_usage_deltas_ = has_usage_deltas_ && event.completion_tokens;
    // Native ids are cumulative, and come with the count anyway.
    has_ids_ = has_ids_ && event.num_token_ids && !event.is_native;
  }
  const int64_t num_ids = event.is_native ? 0 : event.num_token_ids.value_or(0);
  num_ids_ += num_ids;
  if (has_usage_deltas_ && event.completion_tokens) {
    has_usage_in_events_ = true;
    const int64_t num_new = *event.completion_tokens - num_tokens_by_deltas_;
    num_tokens_by_deltas_ = std::max(num_tokens_by_deltas_, *event.completion_tokens);
    if (num_new > 0 && std::exchange(has_uncounted_output_, false)) {
      num_late_tokens_max_ = std::max(num_late_tokens_max_, num_new);
    }
    if (num_new <= 0 && has_output) has_uncounted_output_ = true;
    return std::max<int64_t>(num_new, 0);
  }
  if (has_ids_ && event.num_token_ids) return num_ids;
  return has_output ? 1 : 0;
}

void AnswerLog::keep_text(const EventFields& event) {
  if (!event.is_native) {
    append_unescaped(event.reasoning, record_->text);
    append_unescaped(event.text, record_->text);
    append_unescaped(event.text, answer_text_);
    return;
  }
  if (event.text.starts_with(native_text_)) {
    answer_text_.clear();
  }
  append_unescaped(event.text, answer_text_);
  native_text_ = event.text;
  record_->text = answer_text_;
}

// Some servers put a usage that stands still into each event and the total into the last. One event
// may well be uncounted, as where one token's text comes in two; most tokens in one jump are not.
bool AnswerLog::counts_late() const {
  const int64_t total = usage_total_.value_or(0);
  const int64_t num_at_end = has_uncounted_output_ ? total - num_tokens_by_deltas_ : 0;
  return std::max(num_late_tokens_max_, num_at_end) > total / 2;
}

void AnswerLog::finish() {
  RequestRecord& record = *record_;
  const bool has_deltas = has_usage_deltas_ && has_usage_in_events_ && !is_whole_;
  const bool is_late = has_deltas && counts_late();
  if (is_late) {
    record.first_token = record.first_text;
    record.last_token = last_text_;
  }
  if (has_deltas && !is_late) {
    record.output_source = TokenSource::kUsageDeltas;
    record.num_output_tokens = usage_total_.value_or(0);
  } else if (has_ids_ && num_ids_ > 0 && !is_late) {
    record.output_source = TokenSource::kTokenIds;
    record.num_output_tokens = num_ids_;
  } else if (usage_total_) {
    record.output_source = TokenSource::kUsage;
    record.num_output_tokens = *usage_total_;
    // Of each chunk it is known whether it brought anything, not how much.
    for (size_t i = 0; i < record.chunks.size(); ++i) {
      record.chunks[i].num_tokens = chunks_with_output_[i] ? 1 : 0;
    }
  } else {
    record.output_source = TokenSource::kChunks;
    record.num_output_tokens = num_output_events_;
  }
}

}  // namespace millrace::bench
