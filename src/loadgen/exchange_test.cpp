#include "loadgen/exchange.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "loadgen/peer_answers.h"

namespace millrace::bench {
namespace {

std::unique_ptr<SessionRun> planned() {
  auto run = std::make_unique<SessionRun>(SessionRun{
      .conversation = Conversation(Protocol::kCompletions)});
  run->plan.turns.push_back({.num_prompt_tokens = 3, .num_output_tokens = 4});
  return run;
}

// Each piece comes 10 ns after the one before; the request was sent at 0.
RequestRecord record_of(
    const std::vector<std::string>& pieces, const ExchangeOptions& options = {.keeps_texts = true}
) {
  Exchange exchange(options);
  EventReader reader;
  exchange.start(planned());
  exchange.note_sent(Nanos(0));
  Nanos now(0);
  for (const std::string& piece : pieces) {
    now += Nanos(10);
    if (exchange.take(piece, now, reader)) break;
  }
  exchange.end_of_connection(now + Nanos(10), "the end came", reader);
  return std::move(exchange.record());
}

std::string choice(std::string_view text, std::string_view rest) {
  return peer_event(
      fmt::format(R"({{"choices":[{{"index":0,"text":"{}","finish_reason":null{})", text, rest)
  );
}
std::string with_usage(std::string_view text, int64_t num) {
  return choice(
      text, fmt::format(R"(}}],"usage":{{"prompt_tokens":3,"completion_tokens":{}}}}})", num)
  );
}
std::string with_ids(std::string_view text, std::string_view ids) {
  return choice(text, fmt::format(R"(,"token_ids":{}}}]}})", ids));
}
std::string usage_alone(int64_t num) {
  return peer_event(fmt::format(
      R"({{"choices":[],"usage":{{"prompt_tokens":5,"completion_tokens":{},)"
      R"("prompt_tokens_details":{{"cached_tokens":2}}}}}})",
      num
  ));
}
std::vector<int64_t> tokens_of(const RequestRecord& record) {
  std::vector<int64_t> tokens;
  for (const Chunk& chunk : record.chunks) tokens.push_back(static_cast<int64_t>(chunk.num_tokens));
  return tokens;
}

TEST(Exchange, UsageInEveryEventCountsTheTokensOfEach) {
  const RequestRecord record = record_of(
      {peer_head(),
       with_usage("", 0),
       with_usage("a", 1),
       with_usage("b", 4),
       peer_end(),
       usage_alone(4)}
  );
  EXPECT_EQ(record.outcome, Outcome::kCompleted) << record.error;
  EXPECT_EQ(record.output_source, TokenSource::kUsageDeltas);
  EXPECT_EQ(record.num_output_tokens, 4);
  EXPECT_EQ(tokens_of(record), (std::vector<int64_t>{0, 1, 3, 0}));
  EXPECT_EQ(record.first_chunk, Nanos(20));
  EXPECT_EQ(record.first_text, Nanos(30));
  EXPECT_EQ(record.first_token, Nanos(30));
  EXPECT_EQ(record.first_answer, Nanos(30));
  EXPECT_EQ(record.last_token, Nanos(40));
  EXPECT_EQ(record.last_chunk, Nanos(50));
  EXPECT_EQ(record.ended, Nanos(50));
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_EQ(record.text, "ab");
  EXPECT_EQ(record.http_status, 200);
}

TEST(Exchange, TokenIdsCountWhereUsageDoesNot) {
  const RequestRecord record = record_of(
      {peer_head(), with_ids("a", "[1,2]"), with_ids("b", "[3]"), usage_alone(3), peer_end()}
  );
  EXPECT_EQ(record.output_source, TokenSource::kTokenIds);
  EXPECT_EQ(record.num_output_tokens, 3);
  EXPECT_EQ(tokens_of(record), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_EQ(record.num_prompt_tokens, 5);
  EXPECT_EQ(record.num_cached_tokens, 2);
}

TEST(Exchange, ATotalAloneSaysOfTheChunksOnlyWhichHadOutput) {
  const RequestRecord record = record_of(
      {peer_head(), peer_text("a"), peer_text(""), peer_text("b"), usage_alone(7), peer_end()}
  );
  EXPECT_EQ(record.output_source, TokenSource::kUsage);
  EXPECT_EQ(record.num_output_tokens, 7);
  EXPECT_EQ(tokens_of(record), (std::vector<int64_t>{1, 0, 1, 0}));
  EXPECT_EQ(record.first_token, Nanos(20));
  EXPECT_EQ(record.last_token, Nanos(40));
}

TEST(Exchange, UsageInTheLastEventOnlyIsATotal) {
  const RequestRecord record =
      record_of({peer_head(), peer_text("a"), peer_text("b"), with_usage("c", 9), peer_end()});
  EXPECT_EQ(record.output_source, TokenSource::kUsage);
  EXPECT_EQ(record.num_output_tokens, 9);
}

// Such a server once had all its tokens, and so the time of its first one, in the last event.
TEST(Exchange, UsageThatStandsStillIsATotal) {
  const std::vector<std::string> texts = {peer_head(), with_usage("a", 0), with_usage("b", 0)};
  std::vector<std::string> in_last = texts, behind = texts;
  in_last.insert(in_last.end(), {with_usage("c", 3), peer_end()});
  behind.insert(behind.end(), {with_usage("c", 0), usage_alone(3), peer_end()});
  for (const auto& pieces : {in_last, behind}) {
    const RequestRecord record = record_of(pieces);
    EXPECT_EQ(record.output_source, TokenSource::kUsage);
    EXPECT_EQ(record.num_output_tokens, 3);
    EXPECT_EQ(tokens_of(record), (std::vector<int64_t>{1, 1, 1, 0}));
    EXPECT_EQ(record.first_token, Nanos(20));
    EXPECT_EQ(record.last_token, Nanos(40));
  }
  const RequestRecord split = record_of(
      {peer_head(), with_usage("a", 2), with_usage("b", 2), with_usage("c", 4), peer_end()}
  );
  EXPECT_EQ(split.output_source, TokenSource::kUsageDeltas) << "one token's text in two events";
  EXPECT_EQ(tokens_of(split), (std::vector<int64_t>{2, 0, 2, 0}));
}

// Sums of such counts once overflowed, and the records could not be read again.
TEST(Exchange, CountsThatNoServerCanMeanAreNone) {
  const RequestRecord record = record_of(
      {peer_head(),
       peer_text("a"),
       peer_text("b"),
       usage_alone(9'000'000'000'000'000'000),
       peer_end()}
  );
  EXPECT_EQ(record.output_source, TokenSource::kChunks);
  EXPECT_EQ(record.num_output_tokens, 2);
}

TEST(Exchange, WithoutCountsEachTextIsAGuess) {
  const RequestRecord record = record_of({peer_head(), peer_text("a"), peer_text("b"), peer_end()});
  EXPECT_EQ(record.output_source, TokenSource::kChunks);
  EXPECT_EQ(record.num_output_tokens, 2);
  EXPECT_EQ(tokens_of(record), (std::vector<int64_t>{1, 1, 0}));
}

TEST(Exchange, ReasoningIsTextAndNoAnswer) {
  const auto delta = [](std::string_view inside) {
    return peer_event(fmt::format(R"({{"choices":[{{"delta":{{{}}}}}]}})", inside));
  };
  const RequestRecord record = record_of(
      {peer_head(),
       delta(R"("role":"assistant","content":"")"),
       delta(R"("reasoning_content":"hm")"),
       delta(R"("content":"so")"),
       delta(R"("tool_calls":[{"id":"x"}])"),
       peer_end()}
  );
  EXPECT_EQ(record.first_chunk, Nanos(20));
  EXPECT_EQ(record.first_text, Nanos(30));
  EXPECT_EQ(record.first_answer, Nanos(40));
  EXPECT_EQ(record.last_token, Nanos(50));
  EXPECT_EQ(record.text, "hmso");
  EXPECT_EQ(record.num_output_tokens, 3);
}

TEST(Exchange, NativeTextsAreCumulative) {
  const auto event = [](std::string_view text, int64_t num, std::string_view reason) {
    return peer_event(fmt::format(
        R"({{"text":"{}","meta_info":{{"finish_reason":{},"prompt_tokens":3,)"
        R"("completion_tokens":{},"cached_tokens":1}}}})",
        text,
        reason,
        num
    ));
  };
  const std::string end = R"({"type":"length","length":3})";
  const RequestRecord record = record_of(
      {peer_head(),
       event("a", 1, "null"),
       event("ab\\n", 3, "null"),
       event("ab\\n", 3, end),
       fmt::format("{}0\r\n\r\n", peer_event("[DONE]"))}
  );
  EXPECT_EQ(record.outcome, Outcome::kCompleted) << record.error;
  EXPECT_EQ(record.output_source, TokenSource::kUsageDeltas);
  EXPECT_EQ(tokens_of(record), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(record.text, "ab\n");
  EXPECT_EQ(record.num_cached_tokens, 1);
  EXPECT_EQ(record.last_token, Nanos(30));

  const RequestRecord pieces = record_of(
      {peer_head(), event("a", 1, "null"), event("b", 2, "null"), event("c", 3, end), peer_end()}
  );
  EXPECT_EQ(tokens_of(pieces), (std::vector<int64_t>{1, 1, 1, 0})) << "incremental texts";
  EXPECT_EQ(pieces.text, "abc");
}

// Whether a stream was asked for or not: such a row once had a TTFT of its E2E, and an ITL of 0.
TEST(Exchange, AWholeAnswerHasNoTimesOfItsTokensButTheLast) {
  const std::string body =
      R"({"choices":[{"text":"abc","finish_reason":"stop"}],"usage":{"prompt_tokens":3,)"
      R"("completion_tokens":5}})";
  for (const bool is_streamed : {false, true}) {
    const RequestRecord record = record_of(
        {peer_answer(200, body, "application/json")},
        {.is_streamed = is_streamed, .keeps_texts = true}
    );
    EXPECT_EQ(record.outcome, Outcome::kCompleted) << record.error;
    EXPECT_TRUE(record.came_whole());
    EXPECT_EQ(record.num_output_tokens, 5);
    EXPECT_EQ(record.output_source, TokenSource::kUsage);
    EXPECT_EQ(record.text, "abc");
    EXPECT_EQ(record.finish_reason, "stop");
    for (const std::optional<Nanos>& time :
         {record.first_chunk, record.first_text, record.first_token, record.first_answer}) {
      EXPECT_EQ(time, std::nullopt);
    }
    EXPECT_EQ(record.last_token, Nanos(10));
    EXPECT_EQ(record.ended, Nanos(10));
    EXPECT_TRUE(record.chunks.empty());
  }
}

struct Failing {
  std::string name;
  std::vector<std::string> pieces;
  FailureKind kind;
  std::string error;  // a part of it
};

TEST(Exchange, EachFailureHasItsKindAndItsReason) {
  const std::vector<Failing> cases = {
      {"status",
       {peer_answer(404, R"({"error":{"message":"no model 'x'"}})", "application/json")},
       FailureKind::kStatus,
       "HTTP 404: no model 'x'"},
      {"detail",
       {peer_answer(422, R"({"detail":[{"loc":"body"}]})", "application/json")},
       FailureKind::kStatus,
       R"(HTTP 422: [{"loc": "body"}])"},
      {"a page",
       {peer_answer(502, "<html>\nBad\n</html>", "text/html")},
       FailureKind::kStatus,
       "HTTP 502: <html> Bad </html>"},
      {"nothing said", {peer_answer(500, "", "text/plain")}, FailureKind::kStatus, "HTTP 500"},
      {"no HTTP", {"SSH-2.0\r\n\r\n"}, FailureKind::kMalformed, "not HTTP/1.1"},
      {"no JSON",
       {peer_head(), peer_text("a"), peer_event("{oops")},
       FailureKind::kMalformed,
       "goes wrong at byte 1: {oops"},
      {"a page for an answer",
       {peer_answer(200, "<html>", "text/html")},
       FailureKind::kMalformed,
       "<html>"},
      {"no choices",
       {peer_answer(200, "{}", "application/json")},
       FailureKind::kMalformed,
       "no choices"},
      {"an error event",
       {peer_head(), peer_text("a"), peer_event(R"({"error":{"message":"bad"}})")},
       FailureKind::kServerError,
       "bad"},
      {"an error as an answer",
       {peer_answer(200, R"({"error":{"message":"bad"}})", "application/json")},
       FailureKind::kServerError,
       "bad"},
      // These two once were completed requests.
      {"an event called error",
       {peer_head(), peer_text("a"), peer_chunk("event: error\ndata: {\"message\":\"bad\"}\n\n")},
       FailureKind::kServerError,
       "bad"},
      {"given up",
       {peer_head(),
        peer_text("a"),
        peer_event(R"({"choices":[{"index":0,"text":"","finish_reason":"abort"}]})"),
        peer_end().substr(peer_end().find("e\r\ndata: [DONE]"))},
       FailureKind::kServerError,
       "finish_reason is 'abort'"},
      {"closed", {peer_head(), peer_text("a")}, FailureKind::kClosed, "the end came"},
      {"nothing at all", {}, FailureKind::kClosed, "the end came"},
      {"no end",
       {peer_head(), peer_text("a"), "0\r\n\r\n"},
       FailureKind::kClosed,
       "without a finish_reason"},
      {"empty", {peer_head(), peer_end()}, FailureKind::kEmpty, "no token"},
  };
  for (const Failing& c : cases) {
    const RequestRecord record = record_of(c.pieces);
    EXPECT_EQ(record.outcome, Outcome::kFailed) << c.name;
    EXPECT_EQ(record.failure, c.kind) << c.name;
    EXPECT_NE(record.error.find(c.error), std::string::npos) << c.name << ": " << record.error;
    EXPECT_EQ(record.error.find('\n'), std::string::npos) << c.name;
  }
}

TEST(Exchange, KeepsWhatThereWasWhenItIsCut) {
  Exchange exchange({});
  EventReader reader;
  exchange.start(planned());
  exchange.note_sent(Nanos(1));
  EXPECT_FALSE(exchange.take(peer_head() + with_usage("a", 1), Nanos(10), reader));
  exchange.cut(Nanos(20));
  exchange.fail(FailureKind::kTimeout, "too late", Nanos(30));
  EXPECT_EQ(exchange.record().outcome, Outcome::kUnfinished);
  EXPECT_EQ(exchange.record().num_output_tokens, 1);
  EXPECT_EQ(exchange.record().first_token, Nanos(10));
  EXPECT_EQ(exchange.record().ended, Nanos(20));
  EXPECT_FALSE(exchange.leaves_connection_usable());
}

TEST(Exchange, SplitsChangeNothing) {
  const std::string bytes =
      peer_head() + with_usage("a", 1) + ": ping\n\n" + with_usage("b", 2) + peer_end();
  const std::string framed = peer_head() + peer_chunk(": ping\n\n") + with_usage("a", 1) +
                             with_usage("b\\u00e9", 2) + peer_end();
  const RequestRecord whole = record_of({framed});
  ASSERT_EQ(whole.outcome, Outcome::kCompleted) << whole.error;
  EXPECT_EQ(record_of({bytes}).failure, FailureKind::kMalformed) << "a comment outside the frame";
  for (size_t step = 1; step < framed.size(); ++step) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < framed.size(); at += step) pieces.push_back(framed.substr(at, step));
    const RequestRecord record = record_of(pieces);
    EXPECT_EQ(record.outcome, Outcome::kCompleted) << step << ": " << record.error;
    EXPECT_EQ(record.text, whole.text) << step;
    EXPECT_EQ(tokens_of(record), tokens_of(whole)) << step;
  }
}

TEST(Exchange, ALaterRequestFindsNothingOfTheOneBefore) {
  Exchange exchange({.keeps_texts = true});
  EventReader reader;
  std::vector<RequestRecord> records;
  const std::string answers[] = {
      peer_head() + with_usage("a", 1) + peer_end(),
      peer_answer(500, "x", "text/plain"),
      peer_head() + peer_text("b") + peer_end(),
  };
  for (const std::string& answer : answers) {
    exchange.start(planned());
    exchange.note_sent(Nanos(1));
    EXPECT_TRUE(exchange.take(answer, Nanos(2), reader));
    EXPECT_TRUE(exchange.leaves_connection_usable());
    records.push_back(std::move(exchange.record()));
    exchange.release();
  }
  EXPECT_EQ(records[0].output_source, TokenSource::kUsageDeltas);
  EXPECT_EQ(records[1].http_status, 500);
  EXPECT_EQ(records[2].outcome, Outcome::kCompleted);
  EXPECT_EQ(records[2].text, "b");
  EXPECT_EQ(records[2].output_source, TokenSource::kChunks);
  EXPECT_EQ(records[2].num_output_tokens, 1);
}

}  // namespace
}  // namespace millrace::bench
