// A conversation in the terminal: takes lines, asks the backend, prints what it says.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "chat_backend.h"
#include "line_input.h"

namespace millrace {

struct ChatSessionOptions {
  std::FILE* output = stdout;  // borrowed
  // A person types: there is a prompt, and an error is told and the chat goes on. Otherwise the
  // first error ends it, since what follows builds on the answer.
  bool is_interactive = false;
  // `output` is a terminal: figures after each answer, dim; nothing in an answer controls it.
  bool is_terminal = false;
  std::string system;  // the system prompt; empty: none
};

// Used by one thread, but for interrupt().
class ChatSession {
 public:
  // Both are borrowed.
  ChatSession(ChatBackend& backend, LineInput& input, ChatSessionOptions options);

  // Returns when the input ends or the person leaves.
  Result<void> run();

  // Ctrl-C: stops the answer under way, or else what is being typed; the second in a row at the
  // prompt leaves. Any thread.
  void interrupt();

 private:
  enum class Next { kGoOn, kLeave };

  // What has been said since the start.
  struct Totals {
    int64_t num_answers = 0;
    int64_t num_prompt_tokens = 0;
    int64_t num_output_tokens = 0;
    Duration ttft{0};         // of all answers
    Duration decode_time{0};  // of all answers, from first to last text
    int64_t num_decoded_tokens = 0;
  };
  // When the text of one answer came.
  struct TextTimes {
    TimePoint begin;
    std::optional<TimePoint> first;
    TimePoint last;
  };

  Result<Next> take_line(const std::string& line);
  Next run_command(std::string_view line);
  Result<void> take_turn(std::string_view text);
  json::array messages_with(std::string_view text) const;
  Result<ChatAnswer> ask(const json::array& messages, std::string& text, TextTimes& times);
  void end_answer(const ChatAnswer& answer, const TextTimes& times);
  void set_system(std::string_view text);
  void reset();
  void print_help();
  void print_totals();
  void print(std::string_view text);
  void print_dim(std::string_view text);

  ChatBackend& backend_;
  LineInput& input_;
  ChatSessionOptions options_;
  json::array history_;  // the turns that were answered
  Totals totals_;
  int num_interrupts_ = 0;  // in a row, at the prompt
  bool is_output_lost_ = false;
  std::mutex mutex_;                           // guards answering_
  std::optional<std::stop_source> answering_;  // there while an answer is under way
};

// `text` without what would control a terminal: no C0 and C1 controls but line feed and tab.
// REQUIRES: valid UTF-8.
std::string without_controls(std::string_view text);

}  // namespace millrace
