// One request and its answer: from the bytes that come to the request's record. Knows nothing of
// sockets. Not thread-safe; one for each connection, used again and again.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "loadgen/answer_framing.h"
#include "loadgen/answer_log.h"
#include "loadgen/event_reader.h"
#include "loadgen/session_run.h"
#include "loadgen/sse_scan.h"
#include "results/request_record.h"

namespace millrace::bench {

struct ExchangeOptions {
  bool is_streamed = true;
  bool keeps_chunks = true;
  bool keeps_texts = false;
};

class Exchange {
 public:
  explicit Exchange(const ExchangeOptions& options) : options_(options) {}

  // Begins with the run's current turn. REQUIRES: none is under way.
  void start(std::unique_ptr<SessionRun> run);
  bool is_active() const { return run_ != nullptr; }

  // The request's first byte goes out. False: it did so before, and that counts.
  bool note_sent(Nanos now);
  // Bytes that came at `now`. True: the exchange has ended, as record() says.
  bool take(std::string_view bytes, Nanos now, EventReader& reader);
  // The connection has ended.
  void end_of_connection(Nanos now, std::string_view why, EventReader& reader);
  // What else may end it. Without effect once it has.
  void fail(FailureKind kind, std::string_view error, Nanos now);
  void cut(Nanos now);

  // Whether bytes of the answer have come; if not, another connection may still be tried.
  bool has_answer() const { return framing_.has_started(); }
  // Whether the connection may take another request. REQUIRES: the exchange has ended.
  bool leaves_connection_usable() const { return is_usable_; }

  std::string_view request_bytes() const { return run_->bytes; }
  RequestRecord& record() { return record_; }
  // Tokens since the last call, and the last chunk's time: for the live figures.
  int64_t take_num_new_tokens() { return std::exchange(num_new_tokens_, 0); }
  const std::string& answer_text() const { return log_.answer_text(); }

  // Ends it: the record is taken out, and the run goes on.
  std::unique_ptr<SessionRun> release() { return std::move(run_); }

 private:
  void take_body(std::string_view body, Nanos now, EventReader& reader);
  void take_event(std::string_view data, Nanos now, EventReader& reader);
  void complete(Nanos now, EventReader& reader);
  void complete_answer(Nanos now, EventReader& reader);
  void settle(Nanos now);
  bool is_good_status() const { return framing_.status() / 100 == 2; }

  ExchangeOptions options_;
  std::unique_ptr<SessionRun> run_;
  RequestRecord record_;
  AnswerFraming framing_;
  SseScan events_;
  AnswerLog log_;
  std::string body_;  // of an answer that is no stream
  bool is_sent_ = false;
  bool has_done_ = false;
  bool has_ended_ = false;
  bool is_usable_ = false;
  int64_t num_new_tokens_ = 0;
};

// Of a request that was scheduled and never had its turn: censored, not forgotten.
RequestRecord unsent_record(const SessionRun& run, Nanos now);

// One line of what a server said about a failure: the message of its JSON, or the start of its
// body.
std::string server_message(std::string_view body);

}  // namespace millrace::bench
