#include "loadgen/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "loadgen/json_scan.h"
#include "text/unicode.h"

namespace millrace::bench {
namespace {

constexpr size_t kAnswerBytesMax = size_t{256} << 20;
constexpr size_t kErrorBytesMax = size_t{16} << 10;  // of an answer that is an error
constexpr size_t kMessageBytesMax = 300;             // of it that is quoted

// Valid UTF-8 on one line, of bounded length.
std::string one_line(std::string_view text) {
  std::string line;
  const size_t num_left_out =
      append_utf8_lossy(text.substr(0, kMessageBytesMax), text.size() <= kMessageBytesMax, line);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  while (line.ends_with(' ')) line.pop_back();
  if (text.size() > kMessageBytesMax || num_left_out > 0) line += "...";
  return line;
}

std::string unescaped(std::string_view raw) {
  std::string text;
  append_unescaped(raw, text);
  return one_line(text);
}

// What servers say of a request that they gave up: vLLM's "abort" and "error", SGLang's "abort",
// TensorRT-LLM's "cancelled".
bool is_failure(std::string_view finish_reason) {
  return finish_reason == "abort" || finish_reason == "error" || finish_reason == "cancelled";
}

RequestRecord record_of(const SessionRun& run) {
  return {
      .index = run.first_index + run.turn,
      .phase = run.phase,
      .slot = run.slot.value_or(0),
      .session = run.session,
      .turn = run.turn,
      .scheduled = run.scheduled,
      .admitted = run.admitted,
      .num_prompt_tokens_planned = run.request().num_prompt_tokens,
      .num_output_tokens_planned = run.request().num_output_tokens,
  };
}

}  // namespace

std::string server_message(std::string_view body) {
  const Result<EventFields> fields = read_event(body);
  if (fields && fields->is_error && !fields->error_message.empty()) {
    return unescaped(fields->error_message);
  }
  if (const Result<json::value> value = parse_json(body); value && value->is_object()) {
    for (const std::string_view key : {"message", "detail", "error", "error_msg"}) {
      const json::value* said = value->get_object().if_contains(key);
      if (said == nullptr || said->is_null()) continue;
      if (said->is_string()) return one_line(said->get_string());
      return one_line(to_json_text(*said));
    }
  }
  return one_line(body);
}

RequestRecord unsent_record(const SessionRun& run, Nanos now) {
  RequestRecord record = record_of(run);
  record.admitted = record.sent = record.ended = now;
  return record;
}

void Exchange::start(std::unique_ptr<SessionRun> run) {
  run_ = std::move(run);
  record_ = record_of(*run_);
  framing_.reset();
  events_.reset();
  body_.clear();
  is_sent_ = false;
  has_done_ = false;
  has_ended_ = false;
  is_usable_ = false;
  num_new_tokens_ = 0;
  log_.start(
      record_,
      {.is_streamed = options_.is_streamed,
       .keeps_chunks = options_.keeps_chunks,
       .keeps_text = options_.keeps_texts || run_->has_later_turn()}
  );
}

bool Exchange::note_sent(Nanos now) {
  if (std::exchange(is_sent_, true)) return false;
  record_.sent = now;
  return true;
}

bool Exchange::take(std::string_view bytes, Nanos now, EventReader& reader) {
  while (!has_ended_) {
    std::string_view body;
    const AnswerFraming::Step step = framing_.next(bytes, body);
    record_.http_status = framing_.status();
    if (step == AnswerFraming::Step::kMore) break;
    if (step == AnswerFraming::Step::kBody) {
      take_body(body, now, reader);
    } else if (step == AnswerFraming::Step::kBad) {
      fail(FailureKind::kMalformed, framing_.problem(), now);
    } else {
      // Bytes behind the answer belong to none: nothing good can follow them.
      is_usable_ = framing_.is_keep_alive() && bytes.empty();
      complete(now, reader);
    }
  }
  return has_ended_;
}

void Exchange::take_body(std::string_view body, Nanos now, EventReader& reader) {
  if (!is_good_status() || !framing_.is_event_stream()) {
    const size_t most = is_good_status() ? kAnswerBytesMax : kErrorBytesMax;
    body_.append(body.substr(0, most - std::min(most, body_.size())));
    return;
  }
  while (!has_ended_) {
    const std::optional<std::string_view> data = events_.next(body);
    if (!data) break;
    take_event(*data, now, reader);
  }
  if (events_.is_overlong())
    fail(FailureKind::kMalformed, "an event of the stream has no end", now);
}

void Exchange::take_event(std::string_view data, Nanos now, EventReader& reader) {
  record_.ended = now;
  if (events_.is_error()) return fail(FailureKind::kServerError, server_message(data), now);
  if (data == "[DONE]") {
    has_done_ = true;
    return;
  }
  const Result<EventFields> event = reader.read(data);
  if (!event) {
    fail(
        FailureKind::kMalformed,
        fmt::format(
            "an event of the stream is malformed: {}: {}", event.error().message, one_line(data)
        ),
        now
    );
  } else if (event->is_error) {
    const std::string message = unescaped(event->error_message);
    fail(FailureKind::kServerError, message.empty() ? one_line(data) : message, now);
  } else {
    num_new_tokens_ += log_.add(*event, now);
  }
}

void Exchange::complete(Nanos now, EventReader& reader) {
  if (!is_good_status()) {
    const std::string message = server_message(body_);
    return fail(
        FailureKind::kStatus,
        fmt::format("HTTP {}{}{}", framing_.status(), message.empty() ? "" : ": ", message),
        now
    );
  }
  if (!framing_.is_event_stream()) return complete_answer(now, reader);
  if (const std::optional<std::string_view> data = events_.finish()) {
    take_event(*data, now, reader);
  }
  settle(now);
}

// The answer is one JSON object.
void Exchange::complete_answer(Nanos now, EventReader& reader) {
  const Result<EventFields> answer = reader.read(body_);
  if (!answer) {
    return fail(
        FailureKind::kMalformed,
        fmt::format("the answer is malformed: {}: {}", answer.error().message, one_line(body_)),
        now
    );
  }
  if (answer->is_error) return fail(FailureKind::kServerError, server_message(body_), now);
  if (!answer->has_choices && !answer->is_native) {
    return fail(FailureKind::kMalformed, "the answer has no choices: " + one_line(body_), now);
  }
  num_new_tokens_ += log_.add_whole(*answer, now);
  has_done_ = true;
  settle(now);
}

// The answer is whole, as far as HTTP goes.
void Exchange::settle(Nanos now) {
  if (has_ended_) return;
  if (!has_done_ && !log_.has_finish_reason()) {
    return fail(
        FailureKind::kClosed, "the stream ended without a finish_reason and without [DONE]", now
    );
  }
  if (is_failure(record_.finish_reason)) {
    return fail(
        FailureKind::kServerError, "the finish_reason is '" + record_.finish_reason + "'", now
    );
  }
  log_.finish();
  if (record_.num_output_tokens == 0 && !log_.has_output()) {
    return fail(FailureKind::kEmpty, "the answer has no token", now);
  }
  has_ended_ = true;
  record_.outcome = Outcome::kCompleted;
}

void Exchange::end_of_connection(Nanos now, std::string_view why, EventReader& reader) {
  if (has_ended_) return;
  is_usable_ = false;
  // Some servers leave out the frame's end behind the last event.
  if (framing_.end_of_connection()) {
    complete(now, reader);
  } else if (has_done_) {
    settle(now);
  } else {
    fail(FailureKind::kClosed, why, now);
  }
  is_usable_ = false;
}

void Exchange::fail(FailureKind kind, std::string_view error, Nanos now) {
  if (has_ended_) return;
  has_ended_ = true;
  // The rest of an answer that was not read to its end is in the way; a whole one is not.
  is_usable_ = is_usable_ && framing_.is_complete();
  note_sent(now);  // of what never was: the end, so that times ascend
  log_.finish();
  record_.outcome = Outcome::kFailed;
  record_.failure = kind;
  record_.error = one_line(error);  // it may quote anything that a server sent
  record_.ended = now;
}

void Exchange::cut(Nanos now) {
  if (has_ended_) return;
  has_ended_ = true;
  is_usable_ = false;
  note_sent(now);
  log_.finish();
  record_.outcome = Outcome::kUnfinished;
  record_.ended = now;
}

}  // namespace millrace::bench
