#include "results/summarize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "results/record_fixture.h"

namespace millrace::bench {
namespace {

// 4 slots, 40 requests: each 190 ms for 10 tokens, so 1.9 s in all.
PointRecord record_of_forty() {
  return make_closed_loop(4, 40, {});
}

TEST(Summarize, GivesTheFiguresThatWerePutIn) {
  const PointSummary row = summarize(record_of_forty());
  EXPECT_EQ(row.num_completed, 40);
  EXPECT_EQ(row.num_failed, 0);
  EXPECT_EQ(row.num_unfinished, 0);
  EXPECT_EQ(row.num_input_tokens, 4000);
  EXPECT_EQ(row.num_output_tokens, 400);
  EXPECT_EQ(row.num_cached_tokens, 0);
  EXPECT_DOUBLE_EQ(*row.duration_s, 1.9);
  EXPECT_DOUBLE_EQ(*row.request_throughput, 40 / 1.9);
  EXPECT_DOUBLE_EQ(*row.output_throughput, 400 / 1.9);
  EXPECT_DOUBLE_EQ(*row.total_throughput, 4400 / 1.9);
  EXPECT_NEAR(*row.concurrency, 4.0, 1e-9);
  EXPECT_EQ(row.peak_concurrency, 4);
  EXPECT_DOUBLE_EQ(*row.tokens_per_chunk, 1.0);
  EXPECT_DOUBLE_EQ(row[Metric::kTtft]->mean, 100.0);
  EXPECT_DOUBLE_EQ(row[Metric::kTpot]->median(), 10.0);
  EXPECT_EQ(row[Metric::kItl]->count, 40 * 9);
  EXPECT_DOUBLE_EQ(row[Metric::kItl]->percentile(99).value(), 10.0);
  EXPECT_DOUBLE_EQ(row[Metric::kE2e]->mean, 190.0);
  EXPECT_EQ(row[Metric::kOutputLen]->min, 10.0);
  EXPECT_EQ(row[Metric::kInputLen]->max, 100.0);
  EXPECT_FALSE(row.request_goodput.has_value());
  EXPECT_FALSE(row.cost_per_million_tokens.has_value());
}

// 5 requests at 1 a second once were 1.26 a second: the gap before the first was left out.
TEST(Summarize, CountsAScheduleFromItsZero) {
  PointRecord record = record_of_forty();
  record.first_dispatch = from_ms(100.0);
  const auto duration = [&](Formulas formulas) {
    return *summarize(record, {.formulas = formulas}).duration_s;
  };
  EXPECT_DOUBLE_EQ(duration(Formulas::kMillrace), 1.8);
  EXPECT_DOUBLE_EQ(duration(Formulas::kVllm), 1.9);
  for (const LoadKind kind : {LoadKind::kGamma, LoadKind::kConstant, LoadKind::kTrace}) {
    record.plan.load = {.kind = kind, .request_rate = 20.0};
    EXPECT_DOUBLE_EQ(duration(Formulas::kMillrace), 1.9);
    EXPECT_DOUBLE_EQ(duration(Formulas::kVllm), 1.9);
    EXPECT_DOUBLE_EQ(duration(Formulas::kSglang), 1.8);
  }
}

TEST(Summarize, DividesAChunksGapAmongItsTokens) {
  const PointSummary row = summarize(make_closed_loop(1, 10, {.tokens_per_chunk = 4}));
  EXPECT_DOUBLE_EQ(row[Metric::kIcl]->mean, 10.0);
  EXPECT_EQ(row[Metric::kIcl]->count, 10 * 9);
  EXPECT_DOUBLE_EQ(row[Metric::kItl]->mean, 2.5);
  EXPECT_EQ(row[Metric::kItl]->count, 10 * 36);
  // 36 tokens came after the first chunk's four, in 90 ms.
  EXPECT_DOUBLE_EQ(row[Metric::kTpot]->mean, 2.5);
  EXPECT_DOUBLE_EQ(*row.tokens_per_chunk, 4.0);
  // vLLM's tool takes the gap for the time of one token, and 39 tokens for those after the first.
  const PointSummary vllm =
      summarize(make_closed_loop(1, 10, {.tokens_per_chunk = 4}), {.formulas = Formulas::kVllm});
  EXPECT_DOUBLE_EQ(vllm[Metric::kItl]->mean, 10.0);
  EXPECT_DOUBLE_EQ(vllm[Metric::kTpot]->mean, 90.0 / 39.0);
}

TEST(Summarize, SharesTheTotalWhereNothingElseIsKnown) {
  PointRecord record = make_closed_loop(1, 10, {.tokens_per_chunk = 4});
  for (RequestRecord& request : record.requests) {
    request.output_source = TokenSource::kUsage;
    for (Chunk& chunk : request.chunks) chunk = Chunk::make(chunk.at(), 0);
  }
  const PointSummary row = summarize(record);
  EXPECT_DOUBLE_EQ(row[Metric::kItl]->mean, 2.5);
  EXPECT_DOUBLE_EQ(row[Metric::kTpot]->mean, 2.5);
  EXPECT_DOUBLE_EQ(*row.tokens_per_chunk, 4.0);
}

// Each second event empty, as of servers that send a token's text late: they once halved the ITL.
TEST(Summarize, SharesTheTotalAmongTheEventsWithOutput) {
  PointRecord record = make_closed_loop(1, 10, {.num_chunks = 19});
  for (RequestRecord& request : record.requests) {
    request.output_source = TokenSource::kUsage;
    request.num_output_tokens = 30;
    for (size_t i = 1; i < 19; i += 2) request.chunks[i].num_tokens = 0;
  }
  const PointSummary row = summarize(record);
  EXPECT_DOUBLE_EQ(row[Metric::kIcl]->mean, 20.0);
  EXPECT_DOUBLE_EQ(row[Metric::kItl]->mean, 20.0 / 3.0);
  EXPECT_EQ(row[Metric::kItl]->count, 10 * 9);
  EXPECT_DOUBLE_EQ(*row.tokens_per_chunk, 3.0);
  for (const Formulas formulas : {Formulas::kSglang, Formulas::kGuidellm01}) {
    EXPECT_DOUBLE_EQ(summarize(record, {.formulas = formulas})[Metric::kItl]->mean, 20.0);
  }
  // vLLM's tool takes each event with choices for a token.
  EXPECT_DOUBLE_EQ(summarize(record, {.formulas = Formulas::kVllm})[Metric::kItl]->mean, 10.0);
}

TEST(Summarize, HasNoTimesOfTokensWhereAnswersCameWhole) {
  PointRecord record = record_of_forty();
  record.plan.is_streamed = false;
  for (RequestRecord& request : record.requests) make_whole(request);
  // No less is known of the others' first tokens for one that did not come.
  record.requests.back().outcome = Outcome::kUnfinished;
  record.requests.back().last_token = std::nullopt;
  for (const Formulas formulas :
       {Formulas::kMillrace, Formulas::kVllm, Formulas::kGuidellm, Formulas::kAiperf}) {
    const PointSummary row = summarize(record, {.formulas = formulas});
    EXPECT_FALSE(row[Metric::kTtft].has_value());
    EXPECT_FALSE(row[Metric::kItl].has_value());
    EXPECT_FALSE(row[Metric::kIcl].has_value());
    EXPECT_EQ(row[Metric::kTpot].has_value(), formulas == Formulas::kGuidellm) << "with its TTFT";
    EXPECT_DOUBLE_EQ(row[Metric::kE2e]->median(), 190.0);
    EXPECT_GT(*row.output_throughput, 389 / 1.9);
  }
  record.plan.goals = {.ttft_ms = 190.0};
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 39 / 1.9);
  record.plan.goals = {.ttft_ms = 189.0};
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 0.0);
  // SGLang's tool and the grid's have the first text when they have all of it.
  for (const Formulas formulas : {Formulas::kSglang, Formulas::kGrid}) {
    const PointSummary row = summarize(record, {.formulas = formulas});
    EXPECT_DOUBLE_EQ(row[Metric::kTtft]->mean, 190.0);
    EXPECT_FALSE(row[Metric::kItl].has_value());
  }
  EXPECT_DOUBLE_EQ(summarize(record, {.formulas = Formulas::kSglang})[Metric::kTpot]->mean, 0.0);
}

TEST(Summarize, LeavesWarmUpAndCoolDownOut) {
  PointRecord record = record_of_forty();
  record.requests[0].phase = Phase::kWarmup;
  record.requests[1].phase = Phase::kCooldown;
  record.requests[1].outcome = Outcome::kFailed;
  EXPECT_EQ(summarize(record).num_completed, 38);
  EXPECT_EQ(summarize(record).num_failed, 0);
}

TEST(Summarize, HasBothClocks) {
  PointRecord record = record_of_forty();
  for (RequestRecord& request : record.requests) request.scheduled -= from_ms(30.0);
  const PointSummary row = summarize(record);
  EXPECT_DOUBLE_EQ(row[Metric::kTtft]->mean, 100.0);
  EXPECT_DOUBLE_EQ(row[Metric::kTtftScheduled]->mean, 130.0);
  EXPECT_DOUBLE_EQ(row[Metric::kE2e]->mean, 190.0);
  EXPECT_DOUBLE_EQ(row[Metric::kE2eScheduled]->mean, 220.0);
  EXPECT_DOUBLE_EQ(row[Metric::kQueueTime]->mean, 30.0);
}

TEST(Summarize, CountsRequestsThatMeetAllGoals) {
  PointRecord record = record_of_forty();
  record.plan.goals = {.ttft_ms = 100.0, .tpot_ms = 10.0, .itl_ms = 10.0, .e2e_ms = 190.0};
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 40 / 1.9);
  record.requests[0].first_token = from_ms(101.0);
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 39 / 1.9);
  record.plan.goals.itl_ms = 9.9;
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 0.0);
  // Who comes by a schedule waits from then on.
  record = record_of_forty();
  record.plan.goals.ttft_ms = 120.0;
  for (RequestRecord& request : record.requests) request.scheduled -= from_ms(30.0);
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 40 / 1.9);
  record.plan.load.kind = LoadKind::kGamma;
  EXPECT_DOUBLE_EQ(*summarize(record).request_goodput, 0.0);
}

TEST(Summarize, TellsTheCostOfAMillionTokens) {
  PointRecord record = record_of_forty();
  record.plan.price_per_hour = 3.6;
  EXPECT_DOUBLE_EQ(*summarize(record).cost_per_million_tokens, 0.001 / (400 / 1.9) * 1e6);
}

TEST(Summarize, TakesHitsFromUsageElseFromCounters) {
  PointRecord record = record_of_forty();
  record.server = {
      {.prefix_queries = 100.0, .prefix_hits = 10.0},
      {.prefix_queries = 500.0, .prefix_hits = 310.0}};
  for (RequestRecord& request : record.requests) request.num_cached_tokens = 25;
  EXPECT_DOUBLE_EQ(*summarize(record).prefix_hit_rate, 0.25);
  for (RequestRecord& request : record.requests) request.num_cached_tokens = std::nullopt;
  EXPECT_DOUBLE_EQ(*summarize(record).prefix_hit_rate, 0.75);
  record.server[1].prefix_hits = std::nullopt;
  EXPECT_FALSE(summarize(record).prefix_hit_rate.has_value());
}

TEST(Summarize, CountsFailuresByKindWithAnExampleOfEach) {
  PointRecord record = record_of_forty();
  for (size_t i = 0; i < 3; ++i) {
    record.requests[i].outcome = Outcome::kFailed;
    record.requests[i].failure = i == 1 ? FailureKind::kTimeout : FailureKind::kStatus;
    record.requests[i].error = "error " + std::string(1, static_cast<char>('0' + i));
  }
  const PointSummary row = summarize(record);
  const std::vector<std::pair<FailureKind, int64_t>> failures = {
      {FailureKind::kTimeout, 1}, {FailureKind::kStatus, 2}};
  EXPECT_EQ(row.failures, failures);
  // In the order of `failures`.
  EXPECT_EQ(row.error_examples, (std::vector<std::string>{"error 1", "error 0"}));
}

// Dropping what was under way would make the server look faster.
TEST(Summarize, KeepsTheUnfinishedAsCensored) {
  PointRecord record = record_of_forty();
  for (size_t i = 30; i < 40; ++i) {
    RequestRecord& request = record.requests[i];
    request.outcome = Outcome::kUnfinished;
    request.ended += from_ms(500.0);
    request.last_token = request.last_chunk = request.chunks[4].at();
    request.chunks.resize(5);
    request.num_output_tokens = 5;
  }
  const PointSummary row = summarize(record);
  EXPECT_EQ(row.num_completed, 30);
  EXPECT_EQ(row.num_unfinished, 10);
  EXPECT_EQ(row[Metric::kE2e]->count, 40);
  EXPECT_DOUBLE_EQ(row[Metric::kE2e]->percentile(75).value(), 190.0);
  EXPECT_EQ(row[Metric::kE2e]->percentile(90).value(), std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(row[Metric::kE2e]->mean, 0.75 * 190.0 + 0.25 * 690.0);
  // Their first tokens are known.
  EXPECT_DOUBLE_EQ(row[Metric::kTtft]->percentile(99).value(), 100.0);
  EXPECT_EQ(row.num_output_tokens, 300);
  EXPECT_DOUBLE_EQ(*row.output_throughput, 350 / 1.9);
  const PointSummary vllm = summarize(record, {.formulas = Formulas::kVllm});
  EXPECT_DOUBLE_EQ(vllm[Metric::kE2e]->percentile(99).value(), 190.0);
}

TEST(Summarize, CountsNoRequestAsUnderWayAfterThePointsEnd) {
  PointRecord record = record_of_forty();
  for (size_t i = 36; i < 40; ++i) {
    record.requests[i].outcome = Outcome::kUnfinished;
    record.requests[i].ended += from_ms(60'000.0);
  }
  const PointSummary row = summarize(record);
  EXPECT_DOUBLE_EQ(*row.duration_s, 1.9);
  EXPECT_NEAR(*row.concurrency, 4.0, 1e-9);
  EXPECT_DOUBLE_EQ(row.steady->high, 1.9);
  EXPECT_DOUBLE_EQ(row[Metric::kE2e]->max, 60'190.0);
}

TEST(Summarize, CanLookAtTheSteadyWindowAlone) {
  PointRecord record = make_closed_loop(10, 100, {});
  // One at a time before, slowly.
  for (int64_t i = 0; i < 5; ++i) {
    record.requests.push_back(
        make_request({.index = 100 + i, .sent_ms = -5000.0 + 1000.0 * double(i), .ttft_ms = 500.0})
    );
  }
  record.first_dispatch = from_ms(-5000.0);
  const PointSummary whole = summarize(record);
  const PointSummary steady = summarize(record, {.steady_only = true});
  EXPECT_DOUBLE_EQ(whole.steady->low, 0.0);
  EXPECT_DOUBLE_EQ(whole.steady->high, 1.9);
  EXPECT_DOUBLE_EQ(*whole.duration_s, 6.9);
  EXPECT_DOUBLE_EQ(*steady.duration_s, 1.9);
  EXPECT_DOUBLE_EQ(steady[Metric::kTtft]->max, 100.0);
  EXPECT_DOUBLE_EQ(whole[Metric::kTtft]->max, 500.0);
  EXPECT_NEAR(*steady.concurrency, 10.0, 1e-9);
  // The window ends with the last tokens, which are not in it.
  EXPECT_DOUBLE_EQ(*steady.output_throughput, 990 / 1.9);
  EXPECT_DOUBLE_EQ(*steady.request_throughput, 90 / 1.9);
}

TEST(Summarize, GivesIntervalsAroundItsFigures) {
  PointRecord record = make_closed_loop(4, 400, {});
  for (RequestRecord& request : record.requests) {
    *request.first_token -= from_ms(static_cast<double>(request.index * 37 % 50));
  }
  const PointSummary row = summarize(record);
  const auto holds = [](const std::optional<Interval>& interval, double value) {
    return interval && interval->low <= value && value <= interval->high;
  };
  EXPECT_TRUE(holds(row[Metric::kTtft]->mean_interval, row[Metric::kTtft]->mean));
  EXPECT_TRUE(holds(row.request_throughput_interval, *row.request_throughput));
  EXPECT_TRUE(holds(row.output_throughput_interval, *row.output_throughput));
  EXPECT_LT(row.request_throughput_interval->high, 1.2 * *row.request_throughput);
  for (const Percentile& percentile : row[Metric::kTtft]->percentiles) {
    const bool is_extreme = percentile.rank < 0.75 || percentile.rank > 99.25;
    EXPECT_EQ(percentile.interval.has_value(), !is_extreme) << percentile.rank;
    if (!is_extreme) {
      EXPECT_TRUE(holds(percentile.interval, percentile.value)) << percentile.rank;
    }
  }
  EXPECT_FALSE(summarize(record, {.num_resamples = 0})[Metric::kTtft]->mean_interval.has_value());
}

TEST(Summarize, HasTheRanksAskedForInOrder) {
  const PointSummary row =
      summarize(record_of_forty(), {.percentiles = {97.5, 50.0, 2.0, -1.0, 1000.0, NAN}});
  std::vector<double> ranks;
  for (const Percentile& percentile : row[Metric::kTtft]->percentiles) {
    ranks.push_back(percentile.rank);
  }
  const std::vector<double> expected = {0.1, 1, 2, 5, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.9};
  EXPECT_EQ(ranks, expected);
}

TEST(Summarize, SurvivesRecordsOfNothing) {
  PointRecord failed = record_of_forty();
  for (RequestRecord& request : failed.requests) {
    request = {};
    request.outcome = Outcome::kFailed;
  }
  PointRecord bare = record_of_forty();
  for (RequestRecord& request : bare.requests) {
    request = {};
    request.outcome = Outcome::kCompleted;
  }
  for (const PointRecord& record : {PointRecord{}, failed, bare}) {
    for (const Formulas formulas :
         {Formulas::kMillrace,
          Formulas::kVllm,
          Formulas::kSglang,
          Formulas::kGuidellm,
          Formulas::kGuidellm01,
          Formulas::kAiperf,
          Formulas::kGrid}) {
      for (const bool steady_only : {false, true}) {
        const PointSummary row =
            summarize(record, {.formulas = formulas, .steady_only = steady_only});
        EXPECT_EQ(row.num_completed.value() == 0, row.verdict.trust() == Trust::kInvalid);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::bench
