// The generator where things do not go to their end: requests that fail, that are cut, sessions of
// several turns.
#include <gtest/gtest.h>

#include <thread>

#include "loadgen/generator_fixture.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kNumRequests = 20;

int64_t count(const LoadResult& result, Outcome outcome) {
  return std::ranges::count(result.requests, outcome, &RequestRecord::outcome);
}

std::map<FailureKind, int64_t> failures_of(const LoadResult& result) {
  std::map<FailureKind, int64_t> failures;
  for (const RequestRecord& request : result.requests) {
    if (request.outcome != Outcome::kFailed) continue;
    EXPECT_TRUE(request.failure.has_value());
    EXPECT_FALSE(request.error.empty());
    EXPECT_EQ(request.error.find('\n'), std::string::npos) << request.error;
    ++failures[*request.failure];
  }
  return failures;
}

LoadResult run_against(const MockOptions& options, const Target* other_target = nullptr) {
  const auto server = must_start(options);
  const Target target = target_at(server->url());
  return must_run(
      other_target != nullptr ? *other_target : target,
      NumberedDataset(),
      closed_loop(1, kNumRequests)
  );
}

// How many of the requests with the numbers 1 to 20 are one of each `every`: number 0 is the
// question whether the server takes continuous_usage_stats.
int64_t num_hit(int64_t every) {
  int64_t num = 0;
  for (int64_t number = 1; number <= kNumRequests; ++number) num += (number + 1) % every == 0;
  return num;
}

TEST(GeneratorFailures, CountsEachInItsKind) {
  struct Case {
    std::optional<int64_t> MockOptions::*fault;
    FailureKind kind;
    int32_t status;
  };
  for (const Case& c :
       {Case{&MockOptions::fails_every, FailureKind::kStatus, 500},
        Case{&MockOptions::breaks_every, FailureKind::kClosed, 200},
        Case{&MockOptions::malformed_every, FailureKind::kMalformed, 200},
        Case{&MockOptions::error_every, FailureKind::kServerError, 200}}) {
    SCOPED_TRACE(static_cast<int>(c.kind));
    MockOptions options;
    options.*c.fault = 4;
    const LoadResult result = run_against(options);
    EXPECT_EQ(result.requests.size(), static_cast<size_t>(kNumRequests));
    EXPECT_EQ(result.stop_reason, StopReason::kAllDone);
    const std::map<FailureKind, int64_t> expected = {{c.kind, num_hit(4)}};
    EXPECT_EQ(failures_of(result), expected);
    EXPECT_EQ(count(result, Outcome::kCompleted), kNumRequests - num_hit(4));
    for (const RequestRecord& request : result.requests) {
      EXPECT_EQ(request.http_status, request.failure ? c.status : 200);
      EXPECT_LE(request.sent, request.ended);
    }
  }
}

TEST(GeneratorFailures, KeepsWhatCameOfABrokenAnswer) {
  MockOptions options;
  options.breaks_every = 1;
  const LoadResult result = run_against(options);
  ASSERT_EQ(count(result, Outcome::kFailed), kNumRequests);
  for (const RequestRecord& request : result.requests) {
    EXPECT_GT(request.num_output_tokens, 0);
    EXPECT_LT(request.num_output_tokens, request.num_output_tokens_planned);
    EXPECT_TRUE(request.first_token && *request.first_token <= request.ended);
  }
}

TEST(GeneratorFailures, ADyingServerEndsThePointWithWhatWasRecorded) {
  MockOptions options;
  options.dies_after = 11;  // and so ten of ours
  const auto server = must_start(options);
  const LoadResult result =
      must_run(target_at(server->url()), NumberedDataset({.num_tokens = 4}), closed_loop(1, 1000));
  EXPECT_EQ(result.stop_reason, StopReason::kServerGone);
  EXPECT_EQ(count(result, Outcome::kCompleted), 10);
  std::map<FailureKind, int64_t> failures = failures_of(result);
  EXPECT_EQ(
      failures[FailureKind::kClosed] + failures[FailureKind::kConnect],
      count(result, Outcome::kFailed)
  );
  EXPECT_GE(failures[FailureKind::kConnect], 1);
  EXPECT_LT(result.requests.size(), 1000U) << "it gave up";
  for (size_t i = 0; i < result.requests.size(); ++i) {
    EXPECT_EQ(result.requests[i].index, static_cast<int64_t>(i));
  }
}

TEST(GeneratorFailures, TellsTimeoutsEmptyAnswersTlsAndWrongKeysApart) {
  MockOptions slow;
  slow.ttft.mean = milliseconds(60'000);
  const auto slow_server = must_start(slow);
  Target target = target_at(slow_server->url());
  target.wants_usage_deltas = false;
  target.request_timeout = milliseconds(30);
  LoadResult result = must_run(target, NumberedDataset(), closed_loop(4, 8));
  EXPECT_EQ(failures_of(result), (std::map<FailureKind, int64_t>{{FailureKind::kTimeout, 8}}));

  MockOptions empty;
  empty.output_share = 0.0;
  result = run_against(empty);
  EXPECT_EQ(
      failures_of(result), (std::map<FailureKind, int64_t>{{FailureKind::kEmpty, kNumRequests}})
  );

  MockOptions locked;
  locked.api_key = "right";
  const auto locked_server = must_start(locked);
  target = target_at(locked_server->url());
  target.api_key = "wrong";
  result = must_run(target, NumberedDataset(), closed_loop(2, 4));
  EXPECT_EQ(failures_of(result), (std::map<FailureKind, int64_t>{{FailureKind::kStatus, 4}}));
  EXPECT_EQ(result.requests.front().http_status, 401);
  target.api_key = "right";
  result = must_run(target, NumberedDataset(), closed_loop(2, 4));
  EXPECT_EQ(count(result, Outcome::kCompleted), 4);

  std::string url = locked_server->url();
  target = target_at("https" + url.substr(url.find(':')));
  target.wants_usage_deltas = false;
  result = must_run(target, NumberedDataset(), closed_loop(1, 2));
  EXPECT_EQ(failures_of(result), (std::map<FailureKind, int64_t>{{FailureKind::kTls, 2}}));
}

TEST(GeneratorFailures, TooManyEndThePoint) {
  MockOptions options;
  options.fails_every = 2;
  const auto server = must_start(options);
  LoadOptions load = closed_loop(1, 400);
  load.max_errors = 3;
  const LoadResult result = must_run(target_at(server->url()), NumberedDataset(), load);
  EXPECT_EQ(result.stop_reason, StopReason::kTooManyErrors);
  EXPECT_EQ(count(result, Outcome::kFailed), 4);
  EXPECT_LT(result.requests.size(), 20U);
}

// Four answers of 150 ms are over when the point ends after 250 ms, four are under way.
TEST(GeneratorEnds, WithoutGraceWhatIsUnderWayIsCensored) {
  MockOptions options;
  options.ttft.mean = milliseconds(50);
  options.itl.mean = milliseconds(10);
  const auto server = must_start(options);
  LoadOptions load = closed_loop(4, std::nullopt);
  load.max_duration = milliseconds(250);
  const NumberedDataset dataset({.num_tokens = 11});
  const LoadResult result = must_run(target_at(server->url()), dataset, load);
  EXPECT_EQ(result.stop_reason, StopReason::kMaxSeconds);
  EXPECT_EQ(count(result, Outcome::kFailed), 0);
  EXPECT_EQ(count(result, Outcome::kUnfinished), 4);
  ASSERT_EQ(count(result, Outcome::kCompleted), static_cast<int64_t>(result.requests.size()) - 4);
  EXPECT_GE(count(result, Outcome::kCompleted), 1);
  for (const RequestRecord& request : result.requests) {
    if (request.outcome == Outcome::kCompleted) {
      EXPECT_EQ(request.num_output_tokens, 11);
      continue;
    }
    EXPECT_GE(request.ended, *load.max_duration) << "it ends with the point";
    EXPECT_LT(request.sent, *load.max_duration);
    EXPECT_LT(request.num_output_tokens, 11) << "what came counts";
    EXPECT_FALSE(request.failure);
  }
}

TEST(GeneratorEnds, WithGraceWhatIsUnderWayFinishes) {
  MockOptions options;
  options.ttft.mean = milliseconds(180);
  const auto server = must_start(options);
  LoadOptions load = open_loop(LoadKind::kConstant, 10.0, std::nullopt);
  load.max_duration = milliseconds(490);  // 90 ms after the last one: a busy machine may be late
  load.grace = std::chrono::seconds(30);
  const LoadResult result = must_run(target_at(server->url()), NumberedDataset(), load);
  EXPECT_EQ(result.stop_reason, StopReason::kMaxSeconds);
  EXPECT_EQ(count(result, Outcome::kUnfinished), 0);
  EXPECT_EQ(count(result, Outcome::kCompleted), 5) << "one each 100 ms from 0 on";
  for (const RequestRecord& request : result.requests) {
    EXPECT_LT(request.scheduled, *load.max_duration);
  }
}

TEST(GeneratorEnds, AStopKeepsWhatWasRecorded) {
  MockOptions options;
  options.ttft.mean = milliseconds(20);
  const auto server = must_start(options);
  const LoadOptions load = closed_loop(2, 100'000);
  std::stop_source stop;
  LoadResult result;
  std::thread runner([&] {
    result = must_run(
        target_at(server->url()), NumberedDataset({.num_tokens = 4}), load, stop.get_token()
    );
  });
  while (server->num_requests() < 10) std::this_thread::sleep_for(milliseconds(1));
  stop.request_stop();
  runner.join();
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_GE(count(result, Outcome::kCompleted), 5);
  EXPECT_EQ(count(result, Outcome::kFailed), 0);
  EXPECT_LE(count(result, Outcome::kUnfinished), 2);
}

// A later turn is sent when the answer before has ended and the think time is over, and its prompt
// has all that was said before.
TEST(GeneratorSessions, TurnsFollowOneAnotherWithTheAnswersInTheirPrompts) {
  for (const Protocol protocol : {Protocol::kChat, Protocol::kCompletions}) {
    for (const bool is_open : {false, true}) {
      SCOPED_TRACE(
          testing::Message() << "chat: " << (protocol == Protocol::kChat) << ", open: " << is_open
      );
      const auto server = must_start({});
      const NumberedDataset dataset({.num_turns = 3, .think_time = milliseconds(3)});
      const LoadOptions load =
          is_open ? open_loop(LoadKind::kConstant, 200.0, 8) : closed_loop(3, 8);
      const LoadResult result = must_run(target_at(server->url(), protocol), dataset, load);
      ASSERT_EQ(result.requests.size(), 24U);
      EXPECT_EQ(count(result, Outcome::kCompleted), 24);
      for (size_t i = 0; i < result.requests.size(); ++i) {
        const RequestRecord& request = result.requests[i];
        EXPECT_EQ(request.index, static_cast<int64_t>(i));
        EXPECT_EQ(request.session, static_cast<int64_t>(i / 3));
        EXPECT_EQ(request.turn, static_cast<int32_t>(i % 3));
        EXPECT_EQ(request.num_output_tokens, static_cast<int64_t>(3 + i));
        if (request.turn == 0) continue;
        const RequestRecord& before = result.requests[i - 1];
        EXPECT_GE(request.sent - before.ended, milliseconds(3));
        EXPECT_EQ(request.scheduled, before.ended + milliseconds(3));
        EXPECT_EQ(request.slot, before.slot);
        ASSERT_TRUE(request.num_prompt_tokens && before.num_prompt_tokens);
        EXPECT_GE(
            *request.num_prompt_tokens, *before.num_prompt_tokens + before.num_output_tokens + 4
        );
      }
    }
  }
}

// The rest of a session whose turn failed cannot be asked.
TEST(GeneratorSessions, AFailedTurnEndsItsSession) {
  MockOptions options;
  options.fails_every = 3;
  const auto server = must_start(options);
  Target target = target_at(server->url(), Protocol::kChat);
  target.wants_usage_deltas = false;
  const LoadResult result = must_run(target, NumberedDataset({.num_turns = 4}), closed_loop(1, 3));
  // Numbers 2, 5 and 8 fail: the third request of each session.
  EXPECT_EQ(count(result, Outcome::kFailed), 3);
  for (const RequestRecord& request : result.requests) {
    EXPECT_LE(request.turn, 2);
    EXPECT_EQ(request.outcome == Outcome::kFailed, request.turn == 2);
  }
}

}  // namespace
}  // namespace millrace::bench
