// One answer of the mock server while it is made: which of its bytes are due when. Knows no
// sockets. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/id.h"
#include "loadgen/mock/mock_request.h"
#include "loadgen/mock/token_times.h"
#include "loadgen/mock_server.h"

namespace millrace::bench {

class MockAnswer {
 public:
  // `options` outlive this. `created_s`: Unix time.
  MockAnswer(
      const MockOptions& options, const MockRequest& request, int64_t number, int64_t created_s
  );

  enum class State {
    kOpen,
    kWhole,
    kBroken,  // the connection is to be closed as it is
  };
  State state() const { return state_; }
  bool is_streamed() const { return request_.is_streamed; }
  int64_t number() const { return number_; }

  // When the next bytes are due, since the answer's turn came. REQUIRES: state() is kOpen.
  std::chrono::nanoseconds next_due() const;

  // Adds what is due `elapsed` after the turn came, until `out` has at least `size_max` bytes: of a
  // stream whole events, else nothing or the whole body.
  void append_due(std::chrono::nanoseconds elapsed, size_t size_max, std::string& out);

  int64_t num_prompt_tokens() const { return request_.num_prompt_tokens; }
  int64_t num_cached_tokens() const { return num_cached_; }
  int64_t num_tokens_sent() const { return num_sent_; }

 private:
  enum class Fault { kNone, kBreak, kError, kMalformed };
  static Fault choose_fault(const MockOptions& options, int64_t number);

  bool takes_usage_deltas() const;
  std::string_view finish_reason() const;
  int64_t chunk_size() const;
  void append_whole(std::string& out);
  void append_next_chunk(std::string& out);
  void append_fault(std::string& out);
  void append_openai_chunk(int64_t num_tokens, std::string& out);
  void append_native_chunk(int64_t num_tokens, std::string& out);
  void append_native_members(std::string& out) const;
  void append_role_chunk(std::string& out);
  void append_end(std::string& out);
  void append_usage(std::string& out) const;
  void append_texts(int64_t first, int64_t count, std::string& out) const;
  void append_ids(int64_t first, int64_t count, std::string& out) const;

  const MockOptions* options_;
  MockRequest request_;
  int64_t number_;
  int64_t num_tokens_;  // that come
  int64_t num_cached_;
  TokenTimes times_;
  Fault fault_;
  int64_t fault_at_;         // after so many tokens
  std::string chunk_head_;   // of every chunk, up to the text
  std::string native_text_;  // so far: /generate repeats it in each event
  std::string native_ids_;
  int64_t num_sent_ = 0;
  bool owes_role_ = false;
  State state_ = State::kOpen;
};

}  // namespace millrace::bench
