// Every code of a finding: one record that has it, and one beside it that has not.
#include "results/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/rng.h"
#include "results/record_fixture.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

using ::testing::HasSubstr;

// Four slots, 400 requests of 10 tokens in 190 ms: nothing to say against it.
PointRecord good_record() {
  return make_closed_loop(4, 400, {});
}

// 400 requests, one each 20 ms, in an open loop.
PointRecord good_open_record() {
  PointRecord record = good_record();
  record.plan.load = {.kind = LoadKind::kConstant, .request_rate = 50.0};
  record.requests.clear();
  for (int64_t i = 0; i < 400; ++i) {
    record.requests.push_back(make_request({.index = i, .sent_ms = 20.0 * double(i)}));
  }
  record.finished = record.requests.back().ended;
  return record;
}

void move_sending(RequestRecord& request, double ms) {
  const Nanos by = from_ms(ms);
  request.sent += by;
  for (auto* time :
       {&request.first_chunk,
        &request.first_text,
        &request.first_token,
        &request.first_answer,
        &request.last_token,
        &request.last_chunk}) {
    if (*time) **time += by;
  }
  for (Chunk& chunk : request.chunks) chunk = Chunk::make(chunk.at() + by, chunk.num_tokens);
  request.ended += by;
}

Verdict verdict_of(const PointRecord& record) {
  return summarize(record, {.num_resamples = 0}).verdict;
}

const Finding* find(const Verdict& verdict, std::string_view code) {
  for (const Finding& finding : verdict.findings) {
    if (finding.code == code) return &finding;
  }
  return nullptr;
}

void expect_finding(
    const PointRecord& record, std::string_view code, Trust trust, const std::string& part
) {
  const Verdict verdict = verdict_of(record);
  const Finding* finding = find(verdict, code);
  ASSERT_NE(finding, nullptr) << code;
  EXPECT_EQ(finding->trust, trust) << finding->message;
  EXPECT_THAT(finding->message, HasSubstr(part));
  EXPECT_GE(verdict.trust(), trust);
}

void expect_none(const PointRecord& record, std::string_view code) {
  const Verdict verdict = verdict_of(record);
  const Finding* finding = find(verdict, code);
  EXPECT_EQ(finding, nullptr) << finding->message;
}

TEST(Judge, SaysNothingOfAGoodRun) {
  for (const PointRecord& record : {good_record(), good_open_record()}) {
    const Verdict verdict = verdict_of(record);
    for (const Finding& finding : verdict.findings)
      ADD_FAILURE() << finding.code << finding.message;
    EXPECT_EQ(verdict.trust(), Trust::kOk);
  }
}

TEST(Judge, JudgesTheSameWhateverFormulasPrintTheRow) {
  PointRecord record = good_record();
  for (size_t i = 0; i < 20; ++i) record.requests[i].num_output_tokens = 1;
  const Verdict ours = verdict_of(record);
  ASSERT_FALSE(ours.findings.empty());
  for (const Formulas formulas : {Formulas::kVllm, Formulas::kGrid, Formulas::kGuidellm}) {
    EXPECT_EQ(summarize(record, {.formulas = formulas}).verdict.findings, ours.findings);
  }
  EXPECT_EQ(summarize(record, {.steady_only = true}).verdict.findings, ours.findings);
}

TEST(Judge, PutsTheWorstFirst) {
  PointRecord record = good_record();
  record.requests.resize(100);
  record.server = {{.num_running = 1.0}};
  const Verdict verdict = verdict_of(record);
  ASSERT_GE(verdict.findings.size(), 2u);
  for (size_t i = 1; i < verdict.findings.size(); ++i) {
    EXPECT_GE(verdict.findings[i - 1].trust, verdict.findings[i].trust);
  }
}

TEST(Judge, FindsThatNothingCompleted) {
  PointRecord record = good_record();
  for (RequestRecord& request : record.requests) request.outcome = Outcome::kFailed;
  expect_finding(record, "nothing_completed", Trust::kInvalid, "none of 400");
  expect_finding(PointRecord{}, "nothing_completed", Trust::kInvalid, "none of 0");
  record.requests.front().outcome = Outcome::kCompleted;
  expect_none(record, "nothing_completed");
}

TEST(Judge, FindsRequestsThatWereNeverMade) {
  PointRecord record = good_record();
  record.plan.num_prompts = 800;
  expect_finding(record, "incomplete", Trust::kInvalid, "400 of 800");
  record.stop_reason = StopReason::kMaxSeconds;
  expect_none(record, "incomplete");
}

TEST(Judge, FindsWhyItStopped) {
  PointRecord record = good_record();
  record.stop_reason = StopReason::kServerGone;
  expect_finding(record, "stopped_early", Trust::kInvalid, "gone");
  record.stop_reason = StopReason::kTooManyErrors;
  expect_finding(record, "stopped_early", Trust::kInvalid, "errors");
  record.stop_reason = StopReason::kInterrupted;
  expect_finding(record, "stopped_early", Trust::kWarn, "interrupted");
  record.stop_reason = StopReason::kPrecise;
  expect_none(record, "stopped_early");
}

TEST(Judge, FindsFailures) {
  PointRecord record = good_record();
  const auto fail = [&](size_t i, FailureKind kind) {
    record.requests[i].outcome = Outcome::kFailed;
    record.requests[i].failure = kind;
  };
  expect_none(record, "failures");
  fail(0, FailureKind::kClosed);
  fail(1, FailureKind::kStatus);
  expect_finding(record, "failures", Trust::kWarn, "2 of 400 requests (0.50 %) failed: 1 status");
  for (size_t i = 2; i < 6; ++i) fail(i, FailureKind::kTimeout);
  expect_finding(record, "failures", Trust::kInvalid, "4 timeout");
  // A warm-up's are not measured.
  for (size_t i = 0; i < 6; ++i) record.requests[i].phase = Phase::kWarmup;
  expect_none(record, "failures");
}

TEST(Judge, FindsWhatWasUnderWayAtTheEnd) {
  PointRecord record = good_record();
  expect_none(record, "unfinished");
  for (size_t i = 380; i < 400; ++i) record.requests[i].outcome = Outcome::kUnfinished;
  expect_finding(record, "unfinished", Trust::kWarn, "20 of 400 requests (5.00 %)");
  for (size_t i = 100; i < 380; ++i) {
    record.requests[i].outcome = Outcome::kUnfinished;
    record.requests[i].first_token = record.requests[i].first_text = std::nullopt;
  }
  expect_finding(record, "unfinished", Trust::kInvalid, "of e2e is longer than was seen");
}

TEST(Judge, FindsThatTheOutputLengthWasNotReached) {
  PointRecord record = good_record();
  expect_none(record, "output_length");
  // The published tables' case: each answer is a sixth short.
  for (RequestRecord& request : record.requests) request.num_output_tokens_planned = 12;
  expect_finding(
      record, "output_length", Trust::kInvalid, "4000 of 4800 planned output tokens (83.3 %)"
  );
  record.plan.dataset.ignores_eos = false;
  expect_none(record, "output_length");
  record.plan.dataset.output_len = 12;
  expect_finding(record, "output_length", Trust::kWarn, "400 of 400 requests ended early");
  // Few that are short, hidden in the total.
  record = good_record();
  record.requests[7].num_output_tokens = 9;
  expect_finding(record, "output_length", Trust::kWarn, "1 of 400");
  for (size_t i = 0; i < 5; ++i) record.requests[i].num_output_tokens = 9;
  expect_finding(record, "output_length", Trust::kInvalid, "6 of 400");
  // Longer than asked compares as little.
  record = good_record();
  for (RequestRecord& request : record.requests) request.num_output_tokens_planned = 9;
  expect_finding(record, "output_length", Trust::kInvalid, "111.1 %");
  for (RequestRecord& request : record.requests) request.output_source = TokenSource::kChunks;
  expect_finding(record, "output_length", Trust::kWarn, "guessed");
}

TEST(Judge, FindsPromptsOfAnotherLength) {
  PointRecord record = good_record();
  // A token in front of each, as a beginning-of-sequence is, within 1 %.
  for (RequestRecord& request : record.requests) request.num_prompt_tokens = 101;
  expect_none(record, "prompt_length");
  for (RequestRecord& request : record.requests) request.num_prompt_tokens = 120;
  expect_finding(
      record, "prompt_length", Trust::kWarn, "+20 tokens in each prompt (20.0 % of 100.0)"
  );
  record.plan.endpoint = "/v1/chat/completions";
  expect_none(record, "prompt_length");
  for (size_t i = 0; i < record.requests.size(); ++i) {
    record.requests[i].num_prompt_tokens = 120 + static_cast<int64_t>(i % 9) - 4;
  }
  expect_finding(record, "prompt_length", Trust::kInvalid, "beyond a constant +20");
  for (RequestRecord& request : record.requests) request.num_prompt_tokens = std::nullopt;
  expect_none(record, "prompt_length");
}

TEST(Judge, FindsHitsThatWereNotToBe) {
  PointRecord record = good_record();
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 5;
  expect_none(record, "prefix_hits");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 6;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "6.0 of 100.0 tokens");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 16;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "16.0 of 100.0 tokens");
  // A chat's template is shared whether one wants it or not.
  record.plan.endpoint = "/v1/chat/completions";
  for (RequestRecord& request : record.requests) request.num_prompt_tokens = 130;
  expect_none(record, "prefix_hits");
  // Others have no intention that we know of.
  record = good_record();
  record.plan.dataset.name = "sharegpt";
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 80;
  expect_none(record, "prefix_hits");
}

// The published grid's 32/0: what Llama's tokenizer puts in front is 3 % of such a prompt.
TEST(Judge, AllowsForTokensThatAllPromptsBeginWith) {
  PointRecord record = make_closed_loop(4, 400, {.num_prompt_tokens = 32});
  record.plan.dataset.name = "grid";
  record.plan.dataset.hit_len = 0;
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 4;
  expect_none(record, "prefix_hits");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 5;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "5.0 of 32.0 tokens");
}

// Every session of several turns once was invalid twice: its later prompts are longer than planned
// and lie in the cache.
TEST(Judge, LooksAtTheFirstTurnsOfSessionsAlone) {
  PointRecord record = good_record();
  for (size_t i = 0; i < record.requests.size(); ++i) {
    RequestRecord& request = record.requests[i];
    request.turn = static_cast<int32_t>(i % 3);
    request.num_prompt_tokens = 100 + 110 * request.turn;
    request.num_cached_tokens = 110 * request.turn;
  }
  expect_none(record, "prompt_length");
  expect_none(record, "prefix_hits");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 50;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "50.0 of 100.0 tokens");
  for (size_t i = 0; i < record.requests.size(); ++i) {
    RequestRecord& request = record.requests[i];
    *request.num_prompt_tokens += i % 2 == 0 ? 10 : -10;
  }
  expect_finding(record, "prompt_length", Trust::kInvalid, "by 10.0 tokens on average");
}

TEST(Judge, FindsHitsInTheServersCounters) {
  PointRecord record = good_record();
  for (RequestRecord& request : record.requests) request.num_cached_tokens = std::nullopt;
  record.server = {
      {.prefix_queries = 1000.0, .prefix_hits = 900.0},
      {.prefix_queries = 41'000.0, .prefix_hits = 1000.0}};
  expect_none(record, "prefix_hits");
  record.server[1].prefix_hits = 4900.0;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "10.0 of 100.0 tokens");
}

TEST(Judge, FindsThatThePlannedHitsWereMissed) {
  PointRecord record = make_closed_loop(4, 400, {.num_prompt_tokens = 512});
  record.plan.dataset.hit_len = 256;
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 240;
  expect_none(record, "prefix_hits");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 128;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "128.0 of 512.0 tokens");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 496;
  expect_finding(record, "prefix_hits", Trust::kInvalid, "496.0 of 512.0 tokens");
  for (RequestRecord& request : record.requests) request.num_cached_tokens = std::nullopt;
  expect_finding(record, "prefix_hits", Trust::kWarn, "does not say");
}

TEST(Judge, FindsAnswersThatWereNotStreamed) {
  PointRecord record = good_record();
  const auto hold_back = [](RequestRecord& request, Nanos takes) {
    *request.first_token = *request.last_token - takes;
  };
  // 9 events behind the first one.
  for (RequestRecord& request : record.requests) hold_back(request, Nanos(90'001));
  expect_none(record, "not_streamed");
  for (size_t i = 0; i < 200; ++i) hold_back(record.requests[i], Nanos(90'000));
  expect_none(record, "not_streamed");
  make_whole(record.requests[200]);
  expect_finding(record, "not_streamed", Trust::kInvalid, "201 of 400 answers of several tokens");
  record.plan.is_streamed = false;
  expect_none(record, "not_streamed");
  // One token is always whole.
  record = make_closed_loop(4, 400, {.num_chunks = 1});
  expect_none(record, "not_streamed");
}

TEST(Judge, FindsGuessedTokens) {
  PointRecord record = good_record();
  expect_none(record, "token_source");
  record.requests[3].output_source = TokenSource::kChunks;
  expect_finding(record, "token_source", Trust::kWarn, "1 of 400");
}

TEST(Judge, FindsAP99OfFewRequests) {
  expect_none(make_closed_loop(4, 300, {}), "few_samples");
  expect_finding(make_closed_loop(4, 299, {}), "few_samples", Trust::kWarn, "299 requests");
}

TEST(Judge, FindsARunOfFewWaves) {
  expect_none(make_closed_loop(40, 400, {}), "short_run");
  expect_finding(make_closed_loop(41, 400, {}), "short_run", Trust::kWarn, "9.8 waves");
  PointRecord open = good_open_record();
  open.requests.resize(50);
  open.finished = open.requests.back().ended;
  expect_finding(open, "short_run", Trust::kWarn, "6.2 times the mean latency");
}

TEST(Judge, FindsARateThatWasNotReached) {
  PointRecord record = good_open_record();
  record.plan.load.request_rate = 50.4;
  expect_none(record, "rate");
  record.plan.load.request_rate = 51.0;
  expect_finding(record, "rate", Trust::kWarn, "50.00 requests/s were sent; asked for were 51.00");
  // The published runs' case: 1.21 requests/s where 1 was asked for.
  record.plan.load.request_rate = 50.0 / 1.21;
  expect_finding(record, "rate", Trust::kInvalid, "+21.0 %");
  // Of random gaps as much may be chance: 2 / sqrt(399) is 10 %.
  record.plan.load = {.kind = LoadKind::kGamma, .request_rate = 55.0};
  expect_none(record, "rate");
  record.plan.load.request_rate = 65.0;
  expect_finding(record, "rate", Trust::kInvalid, "chance");
  record.plan.load.ramp = "linear";
  expect_none(record, "rate");
}

TEST(Judge, FindsABusyClient) {
  PointRecord record = good_record();
  record.client.busiest_thread_share = 0.79;
  expect_none(record, "client_saturated");
  record.client.busiest_thread_share = 0.85;
  expect_finding(record, "client_saturated", Trust::kWarn, "85 %");
  record.client.busiest_thread_share = 0.99;
  expect_finding(record, "client_saturated", Trust::kInvalid, "99 %");
}

TEST(Judge, FindsThatTheClientRanOutOfFiles) {
  PointRecord record = good_record();
  record.client.num_connections = 900;
  expect_none(record, "client_limit");
  record.client.num_connections = 1015;
  expect_finding(record, "client_limit", Trust::kWarn, "1015 connections, at most 1024 files");
  record.client.num_connections = 4;
  record.requests[0].outcome = Outcome::kFailed;
  record.requests[0].failure = FailureKind::kClientLimit;
  expect_finding(record, "client_limit", Trust::kInvalid, "1 requests found no file descriptor");
}

TEST(Judge, FindsASendingThatComesLate) {
  PointRecord record = good_record();
  // 1 % of a TTFT of 100 ms, or 1 ms.
  for (RequestRecord& request : record.requests) move_sending(request, 0.9);
  expect_none(record, "schedule_lag");
  for (RequestRecord& request : record.requests) move_sending(request, 0.9);
  expect_finding(record, "schedule_lag", Trust::kWarn, "1.800 ms; 1.000 ms would do");
  for (RequestRecord& request : record.requests) move_sending(request, 20.0);
  expect_finding(record, "schedule_lag", Trust::kInvalid, "21.8");
}

TEST(Judge, TakesLateAdmissionWithoutALimitForTheClientsOwnDelay) {
  PointRecord record = good_open_record();
  for (RequestRecord& request : record.requests) request.scheduled -= from_ms(5.0);
  expect_finding(record, "schedule_lag", Trust::kWarn, "5.000 ms; 1.000 ms would do");
  for (RequestRecord& request : record.requests) request.scheduled -= from_ms(45.0);
  expect_finding(record, "schedule_lag", Trust::kInvalid, "50.000 ms");
  expect_none(record, "client_queue");
}

TEST(Judge, FindsAClientsQueue) {
  PointRecord record = good_open_record();
  record.plan.load.max_concurrency = 64;
  for (RequestRecord& request : record.requests) request.scheduled -= from_ms(5.0);
  expect_none(record, "client_queue");
  for (RequestRecord& request : record.requests) request.scheduled -= from_ms(45.0);
  expect_finding(record, "client_queue", Trust::kWarn, "waited 50.0 ms");
  expect_none(record, "schedule_lag");
  // A closed loop has no schedule of its own.
  record.plan.load = {.kind = LoadKind::kConcurrency, .max_concurrency = 8};
  expect_none(record, "client_queue");
}

TEST(Judge, FindsTheClientsOwnFloor) {
  PointRecord record = good_record();
  record.calibration = Calibration{.ttft_p50_ms = 0.1, .itl_p50_ms = 0.01, .requests_per_s = 1e5};
  expect_none(record, "client_floor");
  record.calibration->itl_p50_ms = 0.07;
  expect_finding(record, "client_floor", Trust::kWarn, "0.070 ms of its own to ITL (0.70 %");
  record.calibration->ttft_p50_ms = 2.0;
  expect_finding(record, "client_floor", Trust::kInvalid, "2.000 ms of its own to TTFT (2.00 %");
  record.calibration = Calibration{.requests_per_s = 10.0};
  expect_finding(record, "client_floor", Trust::kInvalid, "alone reaches 10.0 requests/s");
  // The mock's answers that were under way at its end once made any fast open loop invalid.
  PointRecord open = good_open_record();
  open.calibration = record.calibration;
  expect_none(open, "client_floor");
}

TEST(Judge, FindsTimesThatGrow) {
  const auto grow = [](double share) {
    PointRecord record = good_open_record();
    const Rng rng(1);
    for (RequestRecord& request : record.requests) {
      const auto i = static_cast<uint64_t>(request.index);
      const double ms = 100.0 * share * double(i) / 400.0 + 5.0 * random_unit(1, i);
      *request.first_token += from_ms(ms);
      *request.last_token += from_ms(ms);
      request.ended += from_ms(ms);
    }
    return record;
  };
  expect_none(grow(0.0), "not_stationary");
  expect_none(grow(0.05), "not_stationary");
  expect_finding(grow(0.5), "not_stationary", Trust::kWarn, "TTFT goes from 10");
  PointRecord burst = grow(0.5);
  burst.plan.load = {.kind = LoadKind::kBurst};
  expect_none(burst, "not_stationary");
}

TEST(Judge, FindsWhatThePointBeforeLeft) {
  PointRecord record = good_record();
  record.server = {{.num_running = 0.0, .num_waiting = 0.0}, {.num_running = 4.0}};
  expect_none(record, "leftovers");
  record.server.front().num_waiting = 3.0;
  expect_finding(record, "leftovers", Trust::kInvalid, "0 requests ran and 3 waited");
}

TEST(Verdict, IsAsBadAsItsWorst) {
  Verdict verdict;
  EXPECT_EQ(to_string(verdict.trust()), "ok");
  verdict.findings.push_back({Trust::kWarn, "a", ""});
  EXPECT_EQ(to_string(verdict.trust()), "warn");
  verdict.findings.push_back({Trust::kInvalid, "b", ""});
  verdict.findings.push_back({Trust::kWarn, "c", ""});
  EXPECT_EQ(to_string(verdict.trust()), "invalid");
}

}  // namespace
}  // namespace millrace::bench
