#include "chat_session.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Answers with what `script` gives, and remembers what it was asked.
class ScriptedBackend final : public ChatBackend {
 public:
  using Script = std::function<Result<ChatAnswer>(const OnText&, const std::stop_token&)>;

  explicit ScriptedBackend(Script script) : script_(std::move(script)) {}
  Result<ChatAnswer> answer(
      const json::array& messages, const OnText& on_text, const std::stop_token& stop
  ) override {
    asked.push_back(json::serialize(messages));
    return script_(on_text, stop);
  }
  const std::string& model_name() const override { return name_; }

  std::vector<std::string> asked;

 private:
  Script script_;
  std::string name_ = "scripted";
};

ScriptedBackend::Script says(std::vector<std::string> pieces) {
  return [pieces](const ChatBackend::OnText& on_text, const std::stop_token&) {
    for (const std::string& piece : pieces) on_text(piece);
    const auto count = static_cast<int64_t>(pieces.size());
    return ChatAnswer{.finish_reason = "stop", .num_prompt_tokens = 5, .num_output_tokens = count};
  };
}

// A pipe that the test writes into.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    close_writer();
  }
  void write(std::string_view text) {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_writer() {
    if (!is_closed) ::close(ends[1]);
    is_closed = true;
  }
  int ends[2] = {};
  bool is_closed = false;
};

struct Outcome {
  Result<void> result;
  std::string output;
};

// Runs a session over `typed`, to its end.
Outcome run(ChatBackend& backend, std::string_view typed, ChatSessionOptions options = {}) {
  Pipe pipe;
  pipe.write(typed);
  pipe.close_writer();
  Result<LineInput> input = LineInput::make(pipe.ends[0]);
  char* text = nullptr;
  size_t size = 0;
  options.output = ::open_memstream(&text, &size);
  ChatSession session(backend, *input, options);
  Result<void> result = session.run();
  std::fclose(options.output);
  Outcome outcome{std::move(result), std::string(text, size)};
  std::free(text);
  return outcome;
}

TEST(ChatSession, SendsTheWholeConversationEachTurn) {
  ScriptedBackend backend(says({"Hel", "lo"}));
  const Outcome outcome = run(backend, "Hi\n\n  again \n", {.system = "Be brief."});
  EXPECT_TRUE(outcome.result.ok());
  EXPECT_EQ(outcome.output, "Hello\nHello\n");
  const std::string system = R"({"role":"system","content":"Be brief."})";
  const std::string hi = R"({"role":"user","content":"Hi"})";
  EXPECT_THAT(
      backend.asked,
      ElementsAre(
          "[" + system + "," + hi + "]",
          "[" + system + "," + hi + R"(,{"role":"assistant","content":"Hello"},)" +
              R"({"role":"user","content":"again"}])"
      )
  );
}

TEST(ChatSession, TakesCommands) {
  ScriptedBackend backend(says({"ok\n"}));
  const Outcome outcome = run(
      backend,
      "one\n/reset\ntwo\n/system  Speak French. \n/stats\nthree\n/system\n//slash\n/exit\nnever\n"
  );
  ASSERT_EQ(backend.asked.size(), 4);
  EXPECT_EQ(backend.asked[1], R"([{"role":"user","content":"two"}])");
  EXPECT_THAT(backend.asked[2], StartsWith(R"([{"role":"system","content":"Speak French."},)"));
  EXPECT_THAT(backend.asked[3], StartsWith(R"([{"role":"user","content":"two"},)"));
  EXPECT_THAT(backend.asked[3], HasSubstr(R"({"role":"user","content":"/slash"}])"));
  EXPECT_THAT(outcome.output, HasSubstr("scripted: 2 answers, 10 tokens in, 2 tokens out"));
}

TEST(ChatSession, ListsItsCommandsAndKnowsNoOther) {
  ScriptedBackend backend(says({"ok"}));
  testing::internal::CaptureStderr();
  const Outcome outcome = run(backend, "/help\n/rest\n");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("no command /rest"));
  for (const char* command : {"/help", "/reset", "/system TEXT", "/stats", "/exit"}) {
    EXPECT_THAT(outcome.output, HasSubstr(command));
  }
  EXPECT_TRUE(backend.asked.empty());
}

TEST(ChatSession, EndsAtTheFirstErrorOfAPipe) {
  ScriptedBackend backend([](const auto& on_text, const auto&) -> Result<ChatAnswer> {
    on_text("half");
    return invalid_argument("it broke");
  });
  const Outcome outcome = run(backend, "one\ntwo\n");
  ASSERT_FALSE(outcome.result.ok());
  EXPECT_EQ(outcome.result.error().message, "it broke");
  EXPECT_EQ(outcome.output, "half\n");
  EXPECT_EQ(backend.asked.size(), 1);
}

TEST(ChatSession, GoesOnAfterAnErrorWithAPersonAndForgetsTheTurn) {
  int num_calls = 0;
  ScriptedBackend backend([&](const auto& on_text, const auto& stop) -> Result<ChatAnswer> {
    if (++num_calls == 1) return invalid_argument("bad\n\033[31mnews");
    return says({"fine"})(on_text, stop);
  });
  testing::internal::CaptureStderr();
  const Outcome outcome = run(backend, "one\ntwo\n", {.is_interactive = true});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "millrace chat: bad [31mnews\n");
  EXPECT_TRUE(outcome.result.ok());
  EXPECT_EQ(outcome.output, "> > fine\n> \n");
  EXPECT_EQ(backend.asked.back(), R"([{"role":"user","content":"two"}])");
}

TEST(ChatSession, TellsFiguresToATerminalAndLetsNothingControlIt) {
  ScriptedBackend backend(says(
      {"a\033[2J",
       "\u009b"
       "b\tc\r"}
  ));
  const Outcome outcome = run(backend, "x\n", {.is_terminal = true});
  EXPECT_THAT(outcome.output, StartsWith("a[2Jb\tc\n\033[2mTTFT "));
  EXPECT_THAT(outcome.output, HasSubstr("2 tokens"));
  EXPECT_EQ(
      run(backend, "x\n").output,
      "a\033[2J\xC2\x9B"
      "b\tc\r\n"
  );
}

TEST(ChatSession, AnInterruptStopsTheAnswerAndKeepsWhatWasSaid) {
  ChatSession* running = nullptr;
  ScriptedBackend backend([&](const auto& on_text, const std::stop_token& stop) {
    on_text("so far");
    if (running != nullptr) std::exchange(running, nullptr)->interrupt();
    return ChatAnswer{.finish_reason = stop.stop_requested() ? "" : "stop"};
  });
  Pipe pipe;
  pipe.write("one\ntwo\n");
  pipe.close_writer();
  Result<LineInput> input = LineInput::make(pipe.ends[0]);
  std::FILE* null = std::fopen("/dev/null", "w");
  ChatSession session(backend, *input, {.output = null});
  running = &session;
  EXPECT_TRUE(session.run().ok());
  std::fclose(null);
  ASSERT_EQ(backend.asked.size(), 2);
  EXPECT_THAT(backend.asked[1], HasSubstr(R"({"role":"assistant","content":"so far"})"));
}

TEST(ChatSession, TheSecondInterruptInARowAtThePromptLeaves) {
  ScriptedBackend backend(says({"ok"}));
  Pipe pipe;
  Result<LineInput> input = LineInput::make(pipe.ends[0]);
  std::FILE* null = std::fopen("/dev/null", "w");
  ChatSession session(backend, *input, {.output = null, .is_interactive = true});
  std::atomic<bool> is_over = false;
  std::thread person([&] {
    // However few of these interrupts come together, the chat ends.
    while (!is_over) {
      session.interrupt();
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(session.run().ok());
  is_over = true;
  person.join();
  std::fclose(null);
  EXPECT_TRUE(backend.asked.empty());
}

TEST(ChatSession, SaysThatTheOutputIsLost) {
  ScriptedBackend backend(says({"ok"}));
  Pipe pipe;
  pipe.write("one\ntwo\n");
  Result<LineInput> input = LineInput::make(pipe.ends[0]);
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  ChatSession session(backend, *input, {.output = full});
  const Result<void> result = session.run();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("could not be written"));
  std::fclose(full);
}

TEST(LineInput, ReadsLinesInPiecesAndALastOneWithoutAnEnd) {
  Pipe pipe;
  Result<LineInput> input = LineInput::make(pipe.ends[0]);
  pipe.write("one\r\ntw");
  EXPECT_EQ(input->next()->line, "one");
  pipe.write(
      "o\n\nb\xFF"
      "d"
  );
  EXPECT_EQ(input->next()->line, "two");
  EXPECT_EQ(input->next()->line, "");
  pipe.close_writer();
  EXPECT_EQ(
      input->next()->line,
      "b\xEF\xBF\xBD"
      "d"
  );
  EXPECT_EQ(input->next()->kind, InputKind::kEnd);
  EXPECT_EQ(input->next()->kind, InputKind::kEnd);
}

TEST(LineInput, AnInterruptDropsWhatWasTyped) {
  Pipe pipe;
  Result<LineInput> input = LineInput::make(pipe.ends[0]);
  pipe.write("half");
  input->interrupt();
  EXPECT_EQ(input->next()->kind, InputKind::kInterrupted);
}

TEST(LineInput, RefusesALineWithoutEnd) {
  Pipe pipe;
  Result<LineInput> input = LineInput::make(pipe.ends[0], 1000);
  pipe.write(std::string(2000, 'x'));
  EXPECT_FALSE(input->next().ok());
}

}  // namespace
}  // namespace millrace
