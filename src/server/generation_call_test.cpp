// A call from its parsed request to its last byte, over real connections, with an engine that does
// what the test says.
#include "server/generation_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "http/sse_reader.h"
#include "http/test_server.h"
#include "server/byte_tokenizer.h"
#include "server/call_registry.h"
#include "server/scripted_engine.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kPost = "POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";

GenerationRequest completion(std::string prompt, int32_t max_tokens, bool is_stream) {
  GenerationRequest request;
  request.model = "test";
  request.prompts = {std::move(prompt)};
  request.max_tokens = max_tokens;
  request.is_stream = is_stream;
  return request;
}

// The text of choice `index` that the chunks of a stream add up to.
std::string streamed_text(const std::vector<http::SseEvent>& events, int64_t index = 0) {
  std::string text;
  for (const http::SseEvent& event : events) {
    if (event.data == "[DONE]") continue;
    const json::value chunk = json::parse(event.data);
    if (!chunk.as_object().contains("choices")) continue;
    for (const json::value& choice : chunk.at("choices").as_array()) {
      if (choice.at("index").as_int64() != index) continue;
      text += std::string_view(choice.at("text").as_string());
    }
  }
  return text;
}

class GenerationCallTest : public ::testing::Test {
 protected:
  GenerationCallTest()
      : server_([this](http::HttpServerOptions& options) {
          const auto handler = [this](const std::shared_ptr<http::Exchange>& exchange) {
            auto call = GenerationCall::make(services_, request_, exchange, arrival_);
            holds_call_ ? held_.set_value({exchange, call}) : call->start();
          };
          EXPECT_TRUE(
              options.router.add({.method = "POST", .pattern = "/call", .handler = handler}).ok()
          );
        }),
        peer_(server_.port()) {
    engine_.on_step_end = [this] { wakes_.send(); };
  }

  void send(GenerationRequest request) {
    request_ = std::move(request);
    peer_.send(kPost);
  }
  http::PeerResponse receive() {
    std::optional<http::PeerResponse> response = peer_.read_response();
    EXPECT_TRUE(response);
    return response.value_or(http::PeerResponse());
  }
  std::vector<http::SseEvent> receive_events() {
    std::vector<http::SseEvent> events;
    EXPECT_TRUE(http::SseReader().feed(receive().body, events).ok());
    return events;
  }

  ScriptedEngine engine_;
  ModelText text_{.tokenizer = make_byte_tokenizer(), .chat_template = std::nullopt};
  ServerMetrics metrics_{"test", engine_.limits()};
  TextWorkers workers_{TextWorkersOptions()};
  CallRegistry calls_;
  std::function<std::chrono::local_seconds()> now_ = [] { return std::chrono::local_seconds(); };
  http::WakeBatch wakes_;
  Log log_{STDERR_FILENO, {.level = LogLevel::kError}};
  GenerationCall::Services services_{
      .engine = engine_,
      .text = text_,
      .metrics = metrics_,
      .workers = workers_,
      .calls = calls_,
      .wakes = wakes_,
      .local_now = now_,
      .log = log_};
  GenerationRequest request_;
  TimePoint arrival_ = Clock::now();
  // Whether the next call is handed over instead of started.
  bool holds_call_ = false;
  std::promise<std::pair<std::shared_ptr<http::Exchange>, std::shared_ptr<GenerationCall>>> held_;
  http::TestServer server_;
  http::RawPeer peer_;
};

TEST_F(GenerationCallTest, AnswersWholeWhenAllChoicesAreOver) {
  GenerationRequest request = completion("hi", 8, false);
  request.fields.sampling.n = 2;
  send(request);
  const size_t call = engine_.take();
  EXPECT_EQ(engine_.request(call).prompt, (std::vector<TokenId>{'h', 'i'}));
  engine_.text(call, 1, "second");
  engine_.text(call, 0, "one");
  engine_.finish(call, 1, FinishReason::kLength);
  engine_.finish(call, 0, FinishReason::kStop);
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 200);
  const json::value body = json::parse(response.body);
  EXPECT_EQ(body.at_pointer("/choices/0/text").as_string(), "one");
  EXPECT_EQ(body.at_pointer("/choices/0/finish_reason").as_string(), "stop");
  EXPECT_EQ(body.at_pointer("/choices/1/text").as_string(), "second");
  EXPECT_EQ(body.at_pointer("/choices/1/finish_reason").as_string(), "length");
  EXPECT_EQ(body.at_pointer("/usage/prompt_tokens").as_int64(), 2);
  EXPECT_EQ(body.at_pointer("/usage/completion_tokens").as_int64(), 9);
}

TEST_F(GenerationCallTest, StreamsEachTokenAndEndsWithDone) {
  GenerationRequest request = completion("hi", 8, true);
  request.include_usage = true;
  send(request);
  const size_t call = engine_.take();
  engine_.text(call, 0, "abc");
  engine_.finish(call, 0, FinishReason::kLength);
  const std::vector<http::SseEvent> events = receive_events();
  ASSERT_GE(events.size(), 5U);
  EXPECT_EQ(streamed_text(events), "abc");
  EXPECT_EQ(events.back().data, "[DONE]");
  const json::value usage = json::parse(events[events.size() - 2].data);
  EXPECT_EQ(usage.at_pointer("/usage/completion_tokens").as_int64(), 3);
  EXPECT_TRUE(usage.at("choices").as_array().empty());
}

// Told in several goes. What comes between two of them wakes nobody of its own; it once got stuck.
TEST_F(GenerationCallTest, TellsManyTokensThatComeAtOnce) {
  const std::string many(2000, 'a');
  for (int i = 0; i < 100; ++i) {
    send(completion("hi", 8, true));
    const size_t call = engine_.take();
    const auto on_step_end = std::exchange(engine_.on_step_end, {});
    engine_.text(call, 0, many);
    engine_.on_step_end = on_step_end;
    engine_.text(call, 0, "b");
    // At another moment each time, while the others are worded.
    std::this_thread::sleep_for(std::chrono::microseconds(4 * i));
    engine_.finish(call, 0, FinishReason::kLength);
    engine_.release(call);
    const std::vector<http::SseEvent> events = receive_events();
    ASSERT_EQ(streamed_text(events), many + "b");
    ASSERT_EQ(events.size(), many.size() + 3) << "each token, the end and [DONE]";
  }
}

TEST_F(GenerationCallTest, EndsAChoiceAtAStopStringAndCancelsIt) {
  GenerationRequest request = completion("hi", 32, true);
  request.fields.stop = {"ST"};
  request.fields.sampling.n = 2;
  send(request);
  const size_t call = engine_.take();
  engine_.text(call, 0, "one STtwo");
  EXPECT_TRUE(engine_.is_cancelled(call, 0));
  engine_.text(call, 1, "other S");
  engine_.finish(call, 0, FinishReason::kCancelled);
  engine_.finish(call, 1, FinishReason::kLength);
  const std::vector<http::SseEvent> events = receive_events();
  EXPECT_EQ(streamed_text(events, 0), "one ");
  EXPECT_EQ(streamed_text(events, 1), "other S");
}

TEST_F(GenerationCallTest, TellsWhichStopEndedIt) {
  GenerationRequest request = completion("hi", 32, false);
  request.fields.sampling.stop_token_ids = {'!'};
  send(request);
  const size_t call = engine_.take();
  engine_.text(call, 0, "hey");
  engine_.token(call, 0, '!', true);
  engine_.finish(call, 0, FinishReason::kStop, {.stop_token = '!'});
  const json::value body = json::parse(receive().body);
  EXPECT_EQ(body.at_pointer("/choices/0/text").as_string(), "hey");
  EXPECT_EQ(body.at_pointer("/choices/0/stop_reason").as_int64(), '!');
  EXPECT_EQ(body.at_pointer("/usage/completion_tokens").as_int64(), 4);
}

TEST_F(GenerationCallTest, GivesAllPromptsOfARequestTheirOwnChoices) {
  GenerationRequest request = completion("a", 4, false);
  request.prompts = {std::string("a"), std::vector<TokenId>{'b', 'c'}};
  send(request);
  const size_t first = engine_.take();
  const size_t second = engine_.take();
  engine_.text(second, 0, "2");
  engine_.finish(second, 0, FinishReason::kLength);
  engine_.text(first, 0, "1");
  engine_.finish(first, 0, FinishReason::kLength);
  const json::value body = json::parse(receive().body);
  EXPECT_EQ(body.at_pointer("/choices/0/text").as_string(), "1");
  EXPECT_EQ(body.at_pointer("/choices/1/text").as_string(), "2");
  EXPECT_EQ(body.at_pointer("/usage/prompt_tokens").as_int64(), 3);
}

TEST_F(GenerationCallTest, EchoesThePromptOnlyWhereNothingElseIsWanted) {
  GenerationRequest request = completion("hello", 0, false);
  request.fields.echo = true;
  send(request);
  const size_t call = engine_.take();
  EXPECT_EQ(engine_.request(call).sampling.max_tokens, 1);
  engine_.token(call, 0, 'x');
  engine_.finish(call, 0, FinishReason::kStop);
  const json::value body = json::parse(receive().body);
  EXPECT_EQ(body.at_pointer("/choices/0/text").as_string(), "hello");
  EXPECT_EQ(body.at_pointer("/choices/0/finish_reason").as_string(), "length");
  EXPECT_EQ(body.at_pointer("/usage/completion_tokens").as_int64(), 0);
}

TEST_F(GenerationCallTest, StreamsTheEchoAheadOfTheText) {
  GenerationRequest request = completion("hello", 4, true);
  request.fields.echo = true;
  send(request);
  const size_t call = engine_.take();
  engine_.text(call, 0, "you");
  engine_.finish(call, 0, FinishReason::kLength);
  EXPECT_EQ(streamed_text(receive_events()), "helloyou");
}

TEST_F(GenerationCallTest, HoldsAStreamUntilAllPromptsHaveTheirLogprobs) {
  GenerationRequest request = completion("ab", 4, true);
  request.prompts = {std::string("ab"), std::string("cd")};
  request.fields.echo = true;
  request.fields.sampling.logprobs = 0;
  request.fields.sampling.prompt_logprobs = 0;
  send(request);
  const size_t first = engine_.take();
  const size_t second = engine_.take();
  const auto logprobs_of = [](size_t call, TokenId id) {
    return PromptLogprobsEvent{.request = RequestId{call}, .logprobs = {{{id, -1.0F}}}};
  };
  engine_.deliver(first, logprobs_of(first, 'b'));
  engine_.text(first, 0, "1");
  engine_.finish(first, 0, FinishReason::kLength);
  engine_.deliver(second, logprobs_of(second, 'd'));
  engine_.text(second, 0, "2");
  engine_.finish(second, 0, FinishReason::kLength);
  const std::vector<http::SseEvent> events = receive_events();
  EXPECT_EQ(streamed_text(events, 0), "ab1");
  EXPECT_EQ(streamed_text(events, 1), "cd2");
  const json::value chunk = json::parse(events.front().data);
  EXPECT_EQ(chunk.at_pointer("/choices/0/logprobs/tokens").as_array().size(), 3U);
}

TEST_F(GenerationCallTest, RefusesWithoutAStreamWhatFailsBeforeTheFirstToken) {
  send(completion("hi", 8, true));
  const size_t call = engine_.take();
  engine_.finish(call, 0, FinishReason::kDeadline);
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 504);
  EXPECT_THAT(response.body, HasSubstr("\"error\""));
}

TEST_F(GenerationCallTest, EndsAStreamThatFailsWithAnErrorAndDone) {
  GenerationRequest request = completion("hi", 8, true);
  request.fields.sampling.n = 2;
  send(request);
  const size_t call = engine_.take();
  engine_.text(call, 0, "ab");
  engine_.finish(
      call, 0, FinishReason::kError, {.error = Error{ErrorCode::kInternal, "secret path"}}
  );
  EXPECT_TRUE(engine_.is_cancelled(call));
  const std::vector<http::SseEvent> events = receive_events();
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events.back().data, "[DONE]");
  const json::value error = json::parse(events[events.size() - 2].data);
  EXPECT_EQ(error.at_pointer("/error/type").as_string(), "server_error");
  EXPECT_THAT(events[events.size() - 2].data, Not(HasSubstr("secret")));
}

TEST_F(GenerationCallTest, CancelsWhatItsClientLeaves) {
  send(completion("hi", 8, true));
  const size_t call = engine_.take();
  engine_.text(call, 0, "a");
  peer_.close();
  EXPECT_TRUE(engine_.is_cancelled(call));
  engine_.finish(call, 0, FinishReason::kCancelled);
  engine_.release(call);
  EXPECT_TRUE(http::eventually([&] { return calls_.all().empty(); }));
}

// Its prompt was rendered and tokenized, which kept those waiting whose clients were there.
TEST_F(GenerationCallTest, DoesNothingForAClientThatHasLeftBeforeItsTurn) {
  engine_.on_submit = [] { ADD_FAILURE() << "submitted"; };
  holds_call_ = true;
  send(completion("hi", 8, false));
  auto [exchange, call] = held_.get_future().get();
  peer_.close();
  EXPECT_TRUE(http::eventually([&] { return exchange->is_client_gone(); }));
  call->start();
  EXPECT_TRUE(calls_.all().empty());
}

// It counted from when a text worker had time for the request.
TEST_F(GenerationCallTest, CountsItsTimeFromTheArrival) {
  arrival_ = Clock::now() - std::chrono::hours(2);
  GenerationRequest request = completion("hi", 1, false);
  request.fields.timeout_s = 3600.0;
  send(std::move(request));
  const size_t call = engine_.take();
  EXPECT_EQ(engine_.request(call).deadline, arrival_ + std::chrono::hours(1));
  engine_.text(call, 0, "a");
  engine_.finish(call, 0, FinishReason::kLength);
  receive();
}

TEST_F(GenerationCallTest, EndsAnAbortedCallWithWhatThereIs) {
  send(completion("hi", 8, false));
  const size_t call = engine_.take();
  engine_.text(call, 0, "partial");
  ASSERT_EQ(calls_.all().size(), 1U);
  calls_.all().front()->abort();
  EXPECT_TRUE(engine_.is_cancelled(call));
  engine_.finish(call, 0, FinishReason::kCancelled);
  const json::value body = json::parse(receive().body);
  EXPECT_EQ(body.at_pointer("/choices/0/text").as_string(), "partial");
  EXPECT_EQ(body.at_pointer("/choices/0/finish_reason").as_string(), "abort");
}

TEST_F(GenerationCallTest, TakesBackThePromptsBeforeOneThatIsRefused) {
  engine_.refusal = Error{ErrorCode::kResourceExhausted, "too many sequences"};
  engine_.num_accepted_before_refusal = 1;
  GenerationRequest request = completion("hi", 8, false);
  request.prompts = {std::string("first"), std::string("second")};
  send(request);
  const size_t first = engine_.take();
  EXPECT_TRUE(engine_.is_cancelled(first));
  const http::PeerResponse response = receive();
  engine_.finish(first, 0, FinishReason::kCancelled);
  engine_.release(first);
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.header("retry-after"), "");
  EXPECT_TRUE(http::eventually([&] { return calls_.all().empty(); }));
}

TEST_F(GenerationCallTest, HandsSaltTenantAndTimeLimitToTheEngine) {
  GenerationRequest request = completion("hi", 4, false);
  request.cache_salt = "pepper";
  request.tenant = "key-3";
  request.fields.timeout_s = 3600.0;
  send(std::move(request));
  const EngineRequest seen = engine_.request(engine_.take());
  EXPECT_EQ(seen.cache_salt, "pepper");
  EXPECT_EQ(seen.tenant, "key-3");
  EXPECT_EQ(seen.deadline, arrival_ + std::chrono::hours(1));
  EXPECT_EQ(seen.arrival, arrival_);
  engine_.finish(0, 0, FinishReason::kLength);
  receive();
}

TEST_F(GenerationCallTest, TellsAFullServerWhenToComeBack) {
  engine_.refusal = Error{.code = ErrorCode::kResourceExhausted, .message = "full"};
  engine_.refusal->retry_after = std::chrono::seconds(23);
  send(completion("hi", 4, true));
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.header("retry-after"), "23");
}

TEST_F(GenerationCallTest, FailsWithoutMemoryAsAFullServerDoes) {
  engine_.on_submit = [] { throw std::bad_alloc(); };
  send(completion("hi", 4, false));
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("out of memory"));
}

TEST_F(GenerationCallTest, RefusesPromptsThatNeverFitTogether) {
  GenerationRequest request = completion("hi", 4, false);
  request.prompts = {std::string("a"), std::string("b"), std::string("c")};
  request.fields.sampling.n = 3;  // of 8 sequences
  send(std::move(request));
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("3 prompts with n = 3 are 9 choices"));
  EXPECT_THAT(response.body, HasSubstr("\"param\":\"prompt\""));
}

TEST_F(GenerationCallTest, RefusesPromptsThatDoNotFitWithBothNumbers) {
  send(completion(std::string(60, 'x'), 10, false));
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 400);
  const json::value error = json::parse(response.body);
  EXPECT_EQ(error.at_pointer("/error/code").as_string(), "context_length_exceeded");
  EXPECT_EQ(error.at_pointer("/error/param").as_string(), "prompt");
  EXPECT_THAT(response.body, HasSubstr("64"));
  EXPECT_THAT(response.body, HasSubstr("60"));
}

TEST_F(GenerationCallTest, CountsPromptsNoFurtherThanNeeded) {
  for (const auto& [num_words, expected] :
       {std::pair(4 * 64, "the prompt has 256\""), std::pair(4 * 64 + 1, "has more than 256\"")}) {
    send(completion(std::string(static_cast<size_t>(num_words), 'x'), 10, false));
    const http::PeerResponse response = receive();
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(response.body, HasSubstr(expected));
    EXPECT_THAT(response.body, HasSubstr("context_length_exceeded"));
  }
}

TEST_F(GenerationCallTest, WordsLargeAnswersOnATextWorker) {
  GenerationRequest request = completion("hi", 8, false);
  request.fields.sampling.prompt_logprobs = 5;
  send(request);
  const size_t call = engine_.take();
  PromptLogprobsEvent event{.request = RequestId{call}, .logprobs = {}};
  event.logprobs.assign(1, std::vector<TokenLogprob>(5000, {'i', -1.0F}));
  engine_.deliver(call, event);
  engine_.text(call, 0, "x");
  engine_.finish(call, 0, FinishReason::kLength);
  const http::PeerResponse response = receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_GT(response.body.size(), 100U);
}

}  // namespace
}  // namespace millrace
