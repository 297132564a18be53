#include "chat_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "terminal.h"
#include "text/unicode.h"

namespace millrace {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kAccent = "\033[1;36m";
constexpr std::string_view kPlain = "\033[0m";
constexpr size_t kErrorBytesMax = 1000;

struct Command {
  std::string_view name;
  std::string_view usage;
  std::string_view help;
};
constexpr std::array kCommands = {
    Command{"/help", "/help", "this list"},
    Command{"/reset", "/reset", "forget the conversation, but not the system prompt"},
    Command{"/system", "/system TEXT", "set the system prompt; without TEXT there is none"},
    Command{"/stats", "/stats", "tokens and speed so far"},
    Command{"/exit", "/exit", "leave; so does Ctrl-D"},
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// What a server says may hold anything; an error is one line.
std::string one_line(std::string_view message) {
  std::string line;
  append_utf8_lossy(message.substr(0, kErrorBytesMax), true, line);
  std::ranges::replace(line, '\n', ' ');
  return without_controls(line);
}

std::string describe(Duration duration) {
  const double ms = to_milliseconds(duration);
  return ms < 1000.0 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.2f} s", ms / 1000.0);
}

// The speed of the tokens after the first; empty where there are none to tell of.
std::string describe_speed(int64_t num_decoded_tokens, Duration decode_time) {
  if (num_decoded_tokens <= 0 || decode_time <= Duration(0)) return {};
  const double speed = static_cast<double>(num_decoded_tokens) / to_seconds(decode_time);
  return fmt::format(", {:.1f} tokens/s", speed);
}

// Why an answer ended, where that is not its own end.
std::string note_of(const std::string& finish_reason) {
  if (finish_reason.empty()) return "stopped; ";
  if (finish_reason == "stop") return {};
  if (finish_reason == "length") return "cut off at the token limit; ";
  return fmt::format("ended by '{}'; ", one_line(finish_reason));
}

}  // namespace

std::string without_controls(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint point = decode_code_point(text, pos);
    const bool is_control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    if (!is_control || point.value == '\n' || point.value == '\t') {
      clean += text.substr(pos, point.num_bytes);
    }
    pos += point.num_bytes;
  }
  return clean;
}

ChatSession::ChatSession(ChatBackend& backend, LineInput& input, ChatSessionOptions options)
    : backend_(backend), input_(input), options_(std::move(options)) {}

Result<void> ChatSession::run() {
  while (true) {
    if (options_.is_interactive) {
      print(options_.is_terminal ? fmt::format("{}> {}", kAccent, kPlain) : "> ");
    }
    if (is_output_lost_) return invalid_argument("the output could not be written");
    Result<Input> input = input_.next();
    if (!input) return input.error();
    if (input->kind == InputKind::kEnd) {
      if (options_.is_interactive) print("\n");
      return {};
    }
    if (input->kind == InputKind::kInterrupted) {
      print("\n");
      if (++num_interrupts_ > 1) return {};
      print_dim("Ctrl-C again or Ctrl-D leaves\n");
      continue;
    }
    num_interrupts_ = 0;
    const Result<Next> next = take_line(input->line);
    if (is_output_lost_) return invalid_argument("the output could not be written");
    if (!next && !options_.is_interactive) return next.error();
    if (!next) print_stderr("millrace chat: {}\n", one_line(next.error().message));
    if (next && *next == Next::kLeave) return {};
  }
}

void ChatSession::interrupt() {
  const std::lock_guard lock(mutex_);
  if (answering_) {
    answering_->request_stop();
  } else {
    input_.interrupt();
  }
}

Result<ChatSession::Next> ChatSession::take_line(const std::string& line) {
  std::string_view text = trim(line);
  if (text.empty()) return Next::kGoOn;
  // "//" for a message that begins with a slash.
  if (text.starts_with('/') && !text.starts_with("//")) return run_command(text);
  if (text.starts_with("//")) text.remove_prefix(1);
  const Result<void> taken = take_turn(text);
  if (!taken) return taken.error();
  return Next::kGoOn;
}

ChatSession::Next ChatSession::run_command(std::string_view line) {
  const std::string_view name = line.substr(0, line.find_first_of(" \t"));
  const std::string_view argument = trim(line.substr(name.size()));
  if (name == "/exit") return Next::kLeave;
  if (name == "/help") {
    print_help();
  } else if (name == "/reset") {
    reset();
  } else if (name == "/system") {
    set_system(argument);
  } else if (name == "/stats") {
    print_totals();
  } else {
    print_stderr("there is no command {}; /help lists them, and // begins a message\n", name);
  }
  return Next::kGoOn;
}

json::array ChatSession::messages_with(std::string_view text) const {
  json::array messages;
  if (!options_.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", options_.system}});
  }
  messages.insert(messages.end(), history_.begin(), history_.end());
  messages.push_back({{"role", "user"}, {"content", text}});
  return messages;
}

// Only answered turns become part of the conversation: templates expect them to alternate.
Result<void> ChatSession::take_turn(std::string_view text) {
  std::string said;
  TextTimes times;
  const Result<ChatAnswer> answer = ask(messages_with(text), said, times);
  if (!said.empty() && !said.ends_with('\n')) print("\n");
  if (answer) end_answer(*answer, times);
  if (!answer) return answer.error();
  if (said.empty() && answer->finish_reason.empty()) return {};
  history_.push_back({{"role", "user"}, {"content", text}});
  history_.push_back({{"role", "assistant"}, {"content", said}});
  return {};
}

Result<ChatAnswer> ChatSession::ask(
    const json::array& messages, std::string& text, TextTimes& times
) {
  const auto on_text = [&](std::string_view piece) {
    times.last = Clock::now();
    if (!times.first) times.first = times.last;
    text += piece;
    print(options_.is_terminal ? without_controls(piece) : std::string(piece));
    return !is_output_lost_;
  };
  std::stop_source source;
  {
    const std::lock_guard lock(mutex_);
    answering_ = source;
  }
  times.begin = Clock::now();
  Result<ChatAnswer> answer = backend_.answer(messages, on_text, source.get_token());
  const std::lock_guard lock(mutex_);
  answering_.reset();
  return answer;
}

void ChatSession::end_answer(const ChatAnswer& answer, const TextTimes& times) {
  ++totals_.num_answers;
  totals_.num_prompt_tokens += answer.num_prompt_tokens.value_or(0);
  totals_.num_output_tokens += answer.num_output_tokens;
  if (!times.first) {
    print_dim(note_of(answer.finish_reason) + "no text\n\n");
    return;
  }
  const Duration decode_time = times.last - *times.first;
  totals_.ttft += *times.first - times.begin;
  totals_.decode_time += decode_time;
  totals_.num_decoded_tokens += std::max<int64_t>(0, answer.num_output_tokens - 1);
  print_dim(fmt::format(
      "{}TTFT {}, {} tokens{}\n\n",
      note_of(answer.finish_reason),
      describe(*times.first - times.begin),
      answer.num_output_tokens,
      describe_speed(answer.num_output_tokens - 1, decode_time)
  ));
}

void ChatSession::set_system(std::string_view text) {
  options_.system = text;
  print_dim(text.empty() ? "no system prompt\n" : "the system prompt is set\n");
}

void ChatSession::reset() {
  history_.clear();
  print_dim("a new conversation\n");
}

void ChatSession::print_help() {
  for (const Command& command : kCommands) {
    print(fmt::format("{:<14}{}\n", command.usage, command.help));
  }
  print("Ctrl-C stops an answer. A message that begins with a slash is written with two.\n");
}

void ChatSession::print_totals() {
  print(fmt::format(
      "{}: {} {}, {} tokens in, {} tokens out",
      without_controls(backend_.model_name()),
      totals_.num_answers,
      totals_.num_answers == 1 ? "answer" : "answers",
      totals_.num_prompt_tokens,
      totals_.num_output_tokens
  ));
  if (totals_.num_answers > 0) {
    print(fmt::format(", TTFT {} on average", describe(totals_.ttft / totals_.num_answers)));
  }
  print(describe_speed(totals_.num_decoded_tokens, totals_.decode_time) + "\n");
}

void ChatSession::print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), options_.output);
  if (std::fflush(options_.output) != 0) is_output_lost_ = true;
}

void ChatSession::print_dim(std::string_view text) {
  if (!options_.is_terminal) return;
  const size_t end = std::min(text.find('\n'), text.size());
  print(fmt::format("{}{}{}{}", kDim, text.substr(0, end), kPlain, text.substr(end)));
}

}  // namespace millrace
