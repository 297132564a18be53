// Whole loads, against a peer that says when it did what.
#include "loadgen/load.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "loadgen/peer_answers.h"
#include "loadgen/scripted_peer.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;

class TestDataset final : public Dataset {
 public:
  std::optional<size_t> num_sessions = 1000;
  size_t num_turns = 1;
  int64_t num_output_tokens = 3;
  Nanos think_time{0};
  std::vector<milliseconds> times = {};  // of a trace
  std::optional<size_t> fails_at = {};

  std::optional<size_t> size() const override { return num_sessions; }
  Result<PlannedSession> session(size_t index) const override {
    if (index == fails_at) return invalid_argument("no tokenizer");
    PlannedSession session;
    for (size_t i = 0; i < num_turns; ++i) {
      PlannedRequest request{
          .prompt = fmt::format("s{}t{} ", index, i),
          .num_prompt_tokens = 2,
          .num_output_tokens = num_output_tokens,
          .think_time = think_time,
      };
      if (index < times.size()) request.at = times[index];
      session.turns.push_back(std::move(request));
    }
    return session;
  }
};

Target target_of(const std::string& url) {
  Target target;
  target.url = *http::parse_base_url(url);
  target.model = "m";
  target.wants_usage_deltas = false;
  target.connect_timeout = milliseconds(5000);
  return target;
}

LoadOptions closed_loop(int64_t concurrency, int64_t num_sessions) {
  return {
      .load = {.kind = LoadKind::kConcurrency, .max_concurrency = concurrency},
      .num_sessions = num_sessions,
  };
}

LoadResult run(
    const Target& target,
    const Dataset& dataset,
    const LoadOptions& options,
    std::stop_token stop = {}
) {
  Result<LoadResult> result = run_load(target, dataset, options, std::move(stop));
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message);
  return result ? std::move(*result) : LoadResult{};
}

int64_t count(const LoadResult& result, Outcome outcome) {
  return std::ranges::count(result.requests, outcome, &RequestRecord::outcome);
}

// What holds of any record, whatever became of the request.
void expect_ordered(const LoadResult& result) {
  for (size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& record = result.requests[i];
    const std::string what = fmt::format("request {}: {}", record.index, record.error);
    if (i > 0) {
      EXPECT_LT(result.requests[i - 1].index, record.index);
    }
    EXPECT_LE(record.scheduled, record.admitted) << what;
    EXPECT_LE(record.admitted, record.sent) << what;
    EXPECT_LE(record.sent, record.ended) << what;
    const Nanos first = record.first_chunk.value_or(record.ended);
    EXPECT_LE(record.sent, first) << what;
    EXPECT_LE(first, record.first_text.value_or(record.ended)) << what;
    EXPECT_LE(record.last_chunk.value_or(record.ended), record.ended) << what;
    EXPECT_EQ(record.outcome == Outcome::kFailed, record.failure.has_value()) << what;
    EXPECT_EQ(record.outcome == Outcome::kFailed, !record.error.empty()) << what;
    if (record.phase != Phase::kMeasured) {
      EXPECT_LE(record.ended, Nanos(0)) << "warm-up comes before the clock";
    } else {
      EXPECT_GE(record.admitted, result.first_dispatch) << what;
      const bool is_unfinished = record.outcome == Outcome::kUnfinished;
      const Nanos last_sign =
          is_unfinished ? record.last_chunk.value_or(record.scheduled) : record.ended;
      EXPECT_LE(last_sign, result.finished) << what;
    }
  }
}

TEST(Load, AClosedLoopKeepsItsConcurrency) {
  std::atomic<int> num_now = 0;
  std::atomic<int> num_most = 0;
  ScriptedPeer peer([&](size_t, const PeerRequest&) {
    const int now = ++num_now;
    for (int most = num_most; most < now && !num_most.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(milliseconds(3));
    --num_now;
    return peer_stream(3);
  });
  for (const int32_t num_threads : {1, 3}) {
    LoadOptions options = closed_loop(4, 24);
    options.num_threads = num_threads;
    const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
    expect_ordered(result);
    EXPECT_EQ(count(result, Outcome::kCompleted), 24);
    EXPECT_EQ(result.stop_reason, StopReason::kAllDone);
    EXPECT_EQ(result.client.num_connections, 4);
    std::set<int32_t> slots;
    for (const RequestRecord& record : result.requests) slots.insert(record.slot);
    EXPECT_EQ(slots, (std::set<int32_t>{0, 1, 2, 3}));
  }
  EXPECT_LE(num_most, 4);
}

// The peer's own notes are the truth: what the client says lies around them.
TEST(Load, TimesAgreeWithThePeers) {
  ScriptedPeer peer([](size_t, const PeerRequest&) {
    return peer_stream(4, milliseconds(20), milliseconds(10));
  });
  TestDataset dataset;
  dataset.num_output_tokens = 4;
  const LoadResult result = run(target_of(peer.url()), dataset, closed_loop(2, 6));
  expect_ordered(result);
  ASSERT_EQ(count(result, Outcome::kCompleted), 6);
  std::vector<PeerRequest> theirs = peer.requests();
  ASSERT_EQ(theirs.size(), 6u);
  for (const RequestRecord& record : result.requests) {
    const auto is_same = [&](const PeerRequest& request) {
      return request.body.find(fmt::format("s{}t0", record.session)) != std::string::npos;
    };
    const auto found = std::ranges::find_if(theirs, is_same);
    ASSERT_NE(found, theirs.end());
    // Both clocks are one, and the zero is that of the first request: differences are comparable.
    const std::vector<TimePoint>& steps = found->steps_sent;
    ASSERT_EQ(record.chunks.size(), 5u);
    const Nanos ttft = *record.first_token - record.sent;
    EXPECT_GE(ttft, steps[1] - found->read) << "the peer had not sent it before";
    EXPECT_LT(ttft, steps[1] - found->read + std::chrono::seconds(5));
    for (size_t i = 1; i < record.chunks.size(); ++i) {
      // Of any gap, both ends may be seen late, but not before they were sent.
      EXPECT_GE(record.chunks[i].at() - record.sent, steps[i + 1] - found->read);
    }
    EXPECT_EQ(record.finish_reason, "length");
    EXPECT_GE(record.ended - record.sent, milliseconds(50));
  }
}

TEST(Load, AnOpenLoopKeepsItsScheduleWhateverTheServerDoes) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1, milliseconds(50)); });
  LoadOptions options{.load = {.kind = LoadKind::kConstant, .request_rate = 200.0}};
  options.num_sessions = 20;
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
  expect_ordered(result);
  EXPECT_EQ(count(result, Outcome::kCompleted), 20);
  for (const RequestRecord& record : result.requests) EXPECT_EQ(record.error, "") << record.index;
  for (size_t i = 1; i < result.requests.size(); ++i) {
    const Nanos gap = result.requests[i].scheduled - result.requests[i - 1].scheduled;
    EXPECT_NEAR(static_cast<double>(gap.count()), 5e6, 10.0) << "absolute times, not sleeps";
  }
  EXPECT_EQ(result.requests[0].scheduled, Nanos(0));
  options.load.burstiness = HUGE_VAL;
  options.num_sessions = 2;
  const LoadResult as_vllm = run(target_of(peer.url()), TestDataset(), options);
  EXPECT_EQ(as_vllm.requests.at(0).scheduled, milliseconds(5));
  EXPECT_EQ(as_vllm.requests.at(1).scheduled, milliseconds(10));
}

TEST(Load, PlacesAreGivenFirstComeFirstServed) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1, milliseconds(10)); });
  for (const int32_t num_threads : {1, 2}) {
    LoadOptions options{
        .load = {.kind = LoadKind::kConstant, .request_rate = 2000.0, .max_concurrency = 2}};
    options.num_sessions = 16;
    options.num_threads = num_threads;
    const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
    expect_ordered(result);
    ASSERT_EQ(count(result, Outcome::kCompleted), 16);
    int64_t num_late = 0;
    for (size_t i = 0; i < result.requests.size(); ++i) {
      const RequestRecord& record = result.requests[i];
      // In flight when this one was admitted: never more than two with it.
      const auto num_then = std::ranges::count_if(result.requests, [&](const RequestRecord& other) {
        return other.admitted <= record.admitted && record.admitted < other.ended;
      });
      EXPECT_LE(num_then, 2) << record.index;
      // Threads may wake a little apart, just when a place is free.
      if (i > 0 && num_threads == 1) {
        EXPECT_GE(record.admitted, result.requests[i - 1].admitted);
      }
      if (record.admitted - record.scheduled > milliseconds(10)) ++num_late;
    }
    EXPECT_GE(num_late, 8) << "the queue shows in the record";
  }
}

TEST(Load, ATraceIsSentAtItsTimes) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1); });
  TestDataset dataset;
  dataset.times = {milliseconds(100), milliseconds(120), milliseconds(120), milliseconds(170)};
  dataset.num_sessions = 4;
  const LoadResult result =
      run(target_of(peer.url()), dataset, {.load = {.kind = LoadKind::kTrace}, .num_sessions = 4});
  expect_ordered(result);
  ASSERT_EQ(result.requests.size(), 4u);
  EXPECT_EQ(result.requests[0].scheduled, milliseconds(0));
  EXPECT_EQ(result.requests[2].scheduled, milliseconds(20));
  EXPECT_EQ(result.requests[3].scheduled, milliseconds(70));
  dataset.times.pop_back();
  EXPECT_FALSE(run_load(target_of(peer.url()), dataset, {.load = {.kind = LoadKind::kTrace}}, {}));
}

TEST(Load, WarmUpComesBeforeTheClockWithPromptsOfItsOwn) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(2); });
  LoadOptions options = closed_loop(2, 4);
  options.num_warmups = 3;
  options.first_session = 10;
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
  expect_ordered(result);
  ASSERT_EQ(result.requests.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(result.requests[i].phase, i < 3 ? Phase::kWarmup : Phase::kMeasured);
    EXPECT_EQ(result.requests[i].session, static_cast<int64_t>(10 + i));
    EXPECT_EQ(result.requests[i].index, static_cast<int64_t>(i));
    EXPECT_EQ(result.requests[i].outcome, Outcome::kCompleted);
    for (const Chunk& chunk : result.requests[i].chunks) {
      EXPECT_LE(chunk.at(), result.requests[i].ended) << "shifted with the others";
    }
  }
  TestDataset small;
  small.num_sessions = 14;
  const LoadResult again = run(target_of(peer.url()), small, options);
  ASSERT_EQ(again.requests.size(), 7u);
  EXPECT_EQ(again.requests[2].session, 10) << "the same one again";
  EXPECT_EQ(again.requests[3].session, 10);
  // Warm-up once took its sessions away from those that were measured.
  options.num_sessions = std::nullopt;
  const LoadResult all = run(target_of(peer.url()), small, options);
  ASSERT_EQ(all.requests.size(), 7u);
  EXPECT_EQ(all.requests[2].session, 10);
  EXPECT_EQ(all.requests[3].session, 10);
  EXPECT_EQ(all.requests[6].session, 13);
}

TEST(Load, ASessionCarriesTheAnswersOn) {
  ScriptedPeer peer([](size_t number, const PeerRequest&) {
    return PeerScript{
        {.bytes = peer_head() + peer_text(fmt::format("answer{} ", number)) + peer_end()}};
  });
  TestDataset dataset;
  dataset.num_turns = 3;
  dataset.think_time = milliseconds(20);
  const LoadResult result = run(target_of(peer.url()), dataset, closed_loop(1, 2));
  expect_ordered(result);
  ASSERT_EQ(result.requests.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(result.requests[i].turn, static_cast<int32_t>(i % 3));
    EXPECT_EQ(result.requests[i].session, static_cast<int64_t>(i / 3));
    EXPECT_TRUE(result.requests[i].text.empty()) << "nobody asked for it";
    if (i % 3 == 0) continue;
    EXPECT_EQ(result.requests[i].scheduled, result.requests[i - 1].ended + dataset.think_time);
  }
  const std::vector<PeerRequest> requests = peer.requests();
  const json::value last = json::parse(requests[2].body);
  EXPECT_EQ(last.at("prompt"), "s0t0 answer0 s0t1 answer1 s0t2 ");
  EXPECT_EQ(json::parse(requests[3].body).at("prompt"), "s1t0 ");

  Target chat = target_of(peer.url());
  chat.protocol = Protocol::kChat;
  LoadOptions open{.load = {.kind = LoadKind::kBurst}, .num_sessions = 2};
  open.keeps_texts = true;
  const LoadResult chats = run(chat, dataset, open);
  EXPECT_EQ(count(chats, Outcome::kCompleted), 6);
  EXPECT_FALSE(chats.requests[0].text.empty());
  EXPECT_EQ(json::parse(peer.requests().back().body).at("messages").as_array().size(), 5u);
}

TEST(Load, AKeptConnectionThatWasClosedIsOpenedAgainOnce) {
  ScriptedPeer peer([](size_t number, const PeerRequest&) {
    // The second request of a connection finds it closed.
    if (number == 1) return PeerScript{{.closes = true}};
    return peer_stream(1);
  });
  const LoadResult result = run(target_of(peer.url()), TestDataset(), closed_loop(1, 3));
  expect_ordered(result);
  EXPECT_EQ(count(result, Outcome::kCompleted), 3);
  EXPECT_EQ(peer.num_connections(), 2u);
}

TEST(Load, AServerThatKeepsNoConnectionIsConnectedToEachTime) {
  ScriptedPeer peer([](size_t, const PeerRequest&) {
    PeerScript script = {
        {.bytes = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: "
                  "text/event-stream\r\n\r\ndata: {\"choices\":[{\"text\":\"a\"}]}"
                  "\n\ndata: [DONE]\n\n",
         .closes = true}};
    return script;
  });
  const LoadResult result = run(target_of(peer.url()), TestDataset(), closed_loop(2, 8));
  EXPECT_EQ(count(result, Outcome::kCompleted), 8);
  EXPECT_EQ(result.client.num_connections, 8);
}

TEST(Load, FailuresAreRecordsOfTheirKind) {
  const auto failing = [](const PeerScript& script,
                          const std::string& scheme = "http",
                          const std::string& greeting = "") {
    ScriptedPeer peer([&](size_t, const PeerRequest&) { return script; }, greeting);
    Target target = target_of(fmt::format("{}{}", scheme, peer.url().substr(4)));
    target.request_timeout = milliseconds(200);
    const LoadResult result = run(target, TestDataset(), closed_loop(1, 1));
    EXPECT_EQ(result.requests.size(), 1u);
    expect_ordered(result);
    return result.requests.at(0);
  };
  EXPECT_EQ(failing({{.delay = milliseconds(5000)}}).failure, FailureKind::kTimeout);
  EXPECT_EQ(
      failing({{.bytes = peer_answer(503, "busy", "text/plain")}}).failure, FailureKind::kStatus
  );
  EXPECT_EQ(
      failing({{.bytes = peer_head() + peer_text("a"), .closes = true}}).failure,
      FailureKind::kClosed
  );
  EXPECT_EQ(
      failing({{.bytes = peer_head() + peer_text("a")}, {.delay = milliseconds(20), .resets = true}}
      ).failure,
      FailureKind::kClosed
  );
  EXPECT_EQ(failing({{.bytes = peer_head() + peer_end()}}).failure, FailureKind::kEmpty);
  EXPECT_EQ(failing({{.bytes = peer_head() + peer_event("{")}}).failure, FailureKind::kMalformed);
  const RequestRecord tls = failing({}, "https", "HTTP/1.1 400 X\r\n\r\n");
  EXPECT_EQ(tls.failure, FailureKind::kTls) << tls.error;
  Target nowhere = target_of("http://no..host:1");
  const LoadResult result = run(nowhere, TestDataset(), closed_loop(1, 1));
  EXPECT_EQ(result.requests.at(0).failure, FailureKind::kConnect);
  EXPECT_NE(result.requests.at(0).error.find("no..host:1"), std::string::npos);
}

TEST(Load, ADeadServerEndsThePoint) {
  std::string url;
  {
    ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1); });
    url = peer.url();
  }
  const LoadResult few = run(target_of(url), TestDataset(), closed_loop(2, 2));
  EXPECT_EQ(few.stop_reason, StopReason::kServerGone) << "not one connection";
  EXPECT_EQ(few.requests.at(1).failure, FailureKind::kConnect);

  LoadOptions endless{.load = {.kind = LoadKind::kConstant, .request_rate = 500.0}};
  const LoadResult result = run(target_of(url), TestDataset(), endless);
  expect_ordered(result);
  EXPECT_EQ(result.stop_reason, StopReason::kServerGone);
}

TEST(Load, WhatWasRecordedBeforeTheServerDiedIsKept) {
  std::unique_ptr<ScriptedPeer> peer;
  peer = std::make_unique<ScriptedPeer>([](size_t number, const PeerRequest&) {
    PeerScript script = peer_stream(1);
    if (number >= 20) return PeerScript{{.closes = true}};
    return script;
  });
  std::jthread killer([&] {
    while (peer->requests().size() < 20) std::this_thread::sleep_for(milliseconds(1));
    peer->stop_listening();
  });
  const LoadResult result = run(target_of(peer->url()), TestDataset(), closed_loop(2, 1000));
  expect_ordered(result);
  EXPECT_EQ(result.stop_reason, StopReason::kServerGone);
  EXPECT_EQ(count(result, Outcome::kCompleted), 20);
  EXPECT_LT(result.requests.size(), 200u) << "a refused slot waits before it tries the next";
}

TEST(Load, ThePointEndsInTimeAndWhatIsUnderWayIsUnfinished) {
  ScriptedPeer peer([](size_t, const PeerRequest&) {
    return peer_stream(1000, milliseconds(1), milliseconds(20));
  });
  LoadOptions options{
      .load = {.kind = LoadKind::kConstant, .request_rate = 50.0, .max_concurrency = 3}};
  options.num_sessions = 1000;
  options.max_duration = milliseconds(300);
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
  expect_ordered(result);
  EXPECT_EQ(result.stop_reason, StopReason::kMaxSeconds);
  EXPECT_EQ(count(result, Outcome::kUnfinished), static_cast<int64_t>(result.requests.size()));
  ASSERT_GE(result.requests.size(), 4u) << "those that waited for a place are there too";
  EXPECT_GT(result.requests[0].chunks.size(), 1u) << "with what they had so far";
  EXPECT_TRUE(result.requests.back().chunks.empty());
  for (const RequestRecord& record : result.requests) {
    EXPECT_LT(record.scheduled, milliseconds(300));
    EXPECT_GE(record.ended, milliseconds(300));
  }
}

TEST(Load, GraceLetsWhatIsUnderWayFinish) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(2, milliseconds(150)); });
  LoadOptions options = closed_loop(2, 1000);
  options.max_duration = milliseconds(100);
  options.grace = std::chrono::seconds(20);
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
  EXPECT_EQ(result.stop_reason, StopReason::kMaxSeconds);
  EXPECT_EQ(result.requests.size(), 2u);
  EXPECT_EQ(count(result, Outcome::kCompleted), 2);
}

// 1 request in a second once were ten a second: the answer took a tenth of it.
TEST(Load, APointThatRunsForItsTimeLastsThatLong) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1); });
  LoadOptions options{.load = {.kind = LoadKind::kConstant, .request_rate = 5.0}};
  options.max_duration = milliseconds(350);
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
  expect_ordered(result);
  EXPECT_EQ(result.stop_reason, StopReason::kMaxSeconds);
  ASSERT_EQ(count(result, Outcome::kCompleted), 2);
  EXPECT_EQ(result.finished, std::max<Nanos>(milliseconds(350), result.requests[1].ended));
}

TEST(Load, ItStopsWhenAsked) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1, milliseconds(2)); });
  std::stop_source stop;
  std::jthread stopper([&] {
    while (peer.requests().size() < 10) std::this_thread::sleep_for(milliseconds(1));
    stop.request_stop();
  });
  TestDataset endless;
  endless.num_sessions = std::nullopt;
  LoadOptions options = closed_loop(2, 0);
  options.num_sessions = std::nullopt;
  const LoadResult result = run(target_of(peer.url()), endless, options, stop.get_token());
  expect_ordered(result);
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_GE(count(result, Outcome::kCompleted), 8);

  const LoadResult none = run(target_of(peer.url()), endless, options, stop.get_token());
  EXPECT_EQ(none.stop_reason, StopReason::kInterrupted) << "before it began";
  EXPECT_TRUE(none.requests.empty());
}

// Against a server that hangs, Ctrl-C once waited for all of the grace, which went into the
// figures.
TEST(Load, AStopWaitsForWhatIsUnderWayUntilItIsCut) {
  ScriptedPeer peer([](size_t number, const PeerRequest&) {
    if (number < 4) return peer_stream(1);
    return PeerScript{{.bytes = peer_head() + peer_text("a")}, {.delay = std::chrono::seconds(60)}};
  });
  std::stop_source stop, cut;
  std::jthread stopper([&] {
    while (peer.requests().size() < 6) std::this_thread::sleep_for(milliseconds(1));
    stop.request_stop();
  });
  LoadOptions options = closed_loop(2, 1000);
  options.grace = std::chrono::seconds(60);
  options.cut = cut.get_token();
  std::vector<int64_t> awaited;
  options.on_stopping = [&](int64_t num_awaited) {
    awaited.push_back(num_awaited);
    std::this_thread::sleep_for(milliseconds(300));
    cut.request_stop();
  };
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options, stop.get_token());
  expect_ordered(result);
  EXPECT_EQ(awaited, (std::vector<int64_t>{2}));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_EQ(count(result, Outcome::kCompleted), 4);
  EXPECT_EQ(count(result, Outcome::kUnfinished), 2);
  for (const RequestRecord& record : result.requests) {
    if (record.outcome != Outcome::kUnfinished) continue;
    EXPECT_GE(record.ended - result.finished, milliseconds(200)) << "the wait is not the load's";
  }
}

TEST(Load, TooManyErrorsEndThePoint) {
  ScriptedPeer peer([](size_t, const PeerRequest&) {
    return PeerScript{{.bytes = peer_answer(500, "no", "text/plain")}};
  });
  LoadOptions options = closed_loop(1, 1000);
  options.max_errors = 3;
  const LoadResult result = run(target_of(peer.url()), TestDataset(), options);
  EXPECT_EQ(result.stop_reason, StopReason::kTooManyErrors);
  EXPECT_EQ(count(result, Outcome::kFailed), 4);
}

TEST(Load, EnoughPrecisionEndsThePoint) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1, milliseconds(1)); });
  TestDataset endless;
  endless.num_sessions = std::nullopt;
  LoadOptions options = closed_loop(2, 0);
  options.num_sessions = std::nullopt;
  std::atomic<size_t> num_seen = 0;
  std::atomic<int> num_shown = 0;
  LoadProgress last;
  options.is_precise = [&](const std::vector<RequestRecord>& finished) {
    num_seen = finished.size();
    return finished.size() > 10;
  };
  options.on_progress = [&](const LoadProgress& progress) {
    ++num_shown;
    last = progress;
  };
  const LoadResult result = run(target_of(peer.url()), endless, options);
  EXPECT_EQ(result.stop_reason, StopReason::kPrecise);
  EXPECT_GE(result.requests.size(), num_seen);
  EXPECT_GE(num_shown, 2);
  EXPECT_GT(last.num_completed, 0);
  EXPECT_GT(last.num_output_tokens, 0);
  EXPECT_LE(last.num_in_flight, 2);
  ASSERT_TRUE(last.ttft_p50_ms.has_value());
  EXPECT_GT(*last.ttft_p50_ms, 0.5);
  EXPECT_LE(*last.ttft_p50_ms, *last.ttft_p99_ms);
}

TEST(Load, AFieldThatTheServerRefusesIsLeftOut) {
  ScriptedPeer peer([](size_t, const PeerRequest& request) {
    const bool is_refused = request.body.find("continuous_usage_stats") != std::string::npos;
    if (is_refused) return PeerScript{{.bytes = peer_answer(400, "unknown field", "text/plain")}};
    return peer_stream(1);
  });
  Target target = target_of(peer.url());
  target.wants_usage_deltas = true;
  const LoadResult result = run(target, TestDataset(), closed_loop(1, 3));
  EXPECT_EQ(count(result, Outcome::kCompleted), 3);
  EXPECT_EQ(result.requests.size(), 3u) << "the question before is no request of the point";
  EXPECT_EQ(peer.requests().size(), 5u);
}

TEST(Load, ADatasetThatFailsIsAnErrorOrEndsThePoint) {
  ScriptedPeer peer([](size_t, const PeerRequest&) { return peer_stream(1); });
  TestDataset dataset;
  dataset.fails_at = 2;
  const Result<LoadResult> result = run_load(target_of(peer.url()), dataset, closed_loop(1, 5), {});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(
      result.error().message.find("session 2 of the dataset: no tokenizer"), std::string::npos
  ) << result.error().message;
}

TEST(Load, RefusesWhatMakesNoSense) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto error_of = [&](const LoadOptions& options) {
    const Result<LoadResult> result = run_load(target, TestDataset(), options, {});
    return result ? std::string() : result.error().where;
  };
  EXPECT_EQ(error_of({.load = {.kind = LoadKind::kConcurrency}}), "max_concurrency");
  EXPECT_EQ(error_of(closed_loop(0, 1)), "max_concurrency");
  EXPECT_EQ(error_of(closed_loop(1, 1001)), "num_sessions");
  EXPECT_EQ(error_of(closed_loop(1, -1)), "num_sessions");
  LoadOptions options = closed_loop(1, 1);
  options.num_threads = 0;
  EXPECT_EQ(error_of(options), "num_threads");
}

}  // namespace
}  // namespace millrace::bench
