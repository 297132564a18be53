#include "engine/null_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <memory>
#include <numeric>
#include <semaphore>
#include <set>
#include <thread>

#include "base/rng.h"
#include "engine/event_queue.h"
#include "engine/reference_run.h"
#include "engine/test_stream.h"

namespace millrace {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

NullEngineOptions fast_options() {
  NullEngineOptions options{.vocab_size = 200, .tokens_per_second = 1e9, .max_model_len = 512};
  options.plain_ids.resize(100);
  std::iota(options.plain_ids.begin(), options.plain_ids.end(), 50);
  return options;
}

std::unique_ptr<NullEngine> start_engine(NullEngineOptions options = fast_options()) {
  auto engine = NullEngine::start(std::move(options));
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(*engine);
}

EngineRequest request_of(int32_t max_tokens, std::optional<uint64_t> seed = 7) {
  EngineRequest request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = max_tokens;
  request.sampling.seed = seed;
  return request;
}

// What never has a token in the time of a test.
NullEngineOptions slow_options() {
  NullEngineOptions options = fast_options();
  options.time_to_first_token = hours(1);
  return options;
}

FinishReason reason_of(const SequenceRecord& record) {
  return record.finished.at(0).reason;
}

TEST(NullEngine, SaysTheSameForASeedAndAChoiceWhoeverRunsBeside) {
  const auto engine = start_engine();
  EngineRequest request = request_of(40);
  request.sampling.n = 3;
  const auto alone = submit(*engine, request).finish(3);
  std::vector<Stream> others;
  for (uint64_t i = 0; i < 20; ++i) others.push_back(submit(*engine, request_of(300, i)));
  const auto beside = submit(*engine, request).finish(3);
  for (size_t choice = 0; choice < 3; ++choice) {
    EXPECT_THAT(alone[choice].tokens, SizeIs(40));
    EXPECT_THAT(
        alone[choice].tokens, Each(::testing::AllOf(::testing::Ge(50), ::testing::Lt(150)))
    );
    EXPECT_EQ(alone[choice].tokens, beside[choice].tokens);
    EXPECT_EQ(reason_of(alone[choice]), FinishReason::kLength);
  }
  EXPECT_NE(alone[0].tokens, alone[1].tokens);
  const auto other_seed = submit(*engine, request_of(40, 8)).finish();
  EXPECT_NE(alone[0].tokens, other_seed[0].tokens);
  EXPECT_GT(std::set(alone[0].tokens.begin(), alone[0].tokens.end()).size(), 20U);
  for (Stream& stream : others) EXPECT_THAT(stream.finish()[0].tokens, SizeIs(300));
}

TEST(NullEngine, DrawsSeedsThatFollowFromItsOwn) {
  const auto tokens_of = [](uint64_t engine_seed) {
    NullEngineOptions options = fast_options();
    options.seed = engine_seed;
    const auto engine = start_engine(std::move(options));
    std::vector<std::vector<TokenId>> tokens;
    for (int i = 0; i < 2; ++i) {
      tokens.push_back(submit(*engine, request_of(16, std::nullopt)).finish()[0].tokens);
    }
    return tokens;
  };
  const auto tokens = tokens_of(1);
  EXPECT_NE(tokens[0], tokens[1]) << "two requests without a seed";
  EXPECT_EQ(tokens, tokens_of(1));
  EXPECT_NE(tokens, tokens_of(2));
}

// Whole times were shorter than those to the first token, which count from there.
TEST(NullEngine, TimesBeginWithTheCallersArrival) {
  const auto engine = start_engine();
  EngineRequest request = request_of(2);
  request.arrival = Clock::now() - std::chrono::hours(1);
  const TimePoint arrival = *request.arrival;
  EXPECT_EQ(submit(*engine, request).finish()[0].finished[0].timings.arrival, arrival);
}

TEST(NullEngine, FillsInTimesAndCounts) {
  NullEngineOptions options = fast_options();
  options.time_to_first_token = milliseconds(3);
  options.tokens_per_second = 1000.0;
  const auto engine = start_engine(std::move(options));
  const TimePoint before = Clock::now();
  const SequenceRecord record = submit(*engine, request_of(5)).finish()[0];
  const SequenceTimings& timings = record.finished[0].timings;
  EXPECT_LE(before, timings.arrival);
  EXPECT_LE(timings.arrival, *timings.first_scheduled);
  EXPECT_GE(*timings.first_token - *timings.first_scheduled, milliseconds(3));
  EXPECT_GE(*timings.last_token - *timings.first_scheduled, milliseconds(3 + 4));
  EXPECT_LE(*timings.last_token, record.finished[0].when);
  EXPECT_EQ(timings.num_prompt_tokens, 3);
  EXPECT_EQ(timings.num_output_tokens, 5);

  submit(*engine, request_of(1)).finish();  // the first one's last step is counted now
  const EngineStats stats = engine->stats();
  EXPECT_GE(stats.num_steps, 5);
  EXPECT_GE(stats.num_tokens_computed, 3 + 4);
  EXPECT_GE(stats.num_prompt_tokens, 3);
  EXPECT_GE(stats.num_output_tokens, 5);
  EXPECT_EQ(stats.step_sizes.num_tokens, stats.num_tokens_computed);
  EXPECT_EQ(stats.num_live_seqs, 0);
  EXPECT_EQ(stats.working_since, std::nullopt);
}

// Late or not: what comes after the first token follows the pace from there.
TEST(NullEngine, NeverRunsAheadOfItsPace) {
  NullEngineOptions options = fast_options();
  options.tokens_per_second = 2000.0;
  const auto engine = start_engine(std::move(options));
  auto queue = std::make_shared<EventQueue>(request_of(40));
  ASSERT_TRUE(engine->submit(request_of(40), queue).ok());
  std::vector<TimePoint> times;
  std::optional<TimePoint> begin;
  for (;;) {
    const EngineEvent event = queue->next();
    if (const auto* end = std::get_if<FinishedEvent>(&event)) {
      begin = end->timings.first_scheduled;
      break;
    }
    times.push_back(std::get<TokenEvent>(event).when);
  }
  ASSERT_EQ(times.size(), 40U);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_GE(times[i] - *begin, std::chrono::microseconds(500 * i));
    EXPECT_TRUE(i == 0 || times[i] > times[i - 1]) << "two tokens of one choice in one step";
  }
}

TEST(NullEngine, ServesInOneStepWhoIsDueAtAboutTheSameTime) {
  NullEngineOptions options = fast_options();
  options.tokens_per_second = 50.0;
  options.max_num_seqs = 512;
  const auto engine = start_engine(std::move(options));
  const TimePoint start = Clock::now();
  std::vector<Stream> streams;
  for (uint64_t i = 0; i < 300; ++i) streams.push_back(submit(*engine, request_of(10, i)));
  for (Stream& stream : streams) EXPECT_THAT(stream.finish().at(0).tokens, SizeIs(10));
  // A step may also come with each request that is taken in, and none other within 1 ms.
  const auto elapsed_ms = static_cast<int64_t>(to_milliseconds(Clock::now() - start));
  EXPECT_LE(engine->stats().num_steps, elapsed_ms + 300 + 1);
}

TEST(NullEngine, StopsAtAStopTokenButNotBeforeMinTokens) {
  const auto engine = start_engine();
  const std::vector<TokenId> free = submit(*engine, request_of(60)).finish()[0].tokens;
  EngineRequest request = request_of(60);
  request.sampling.stop_token_ids = {199, free[5]};
  const auto first = std::find(free.begin(), free.end(), free[5]);
  const SequenceRecord stopped = submit(*engine, request).finish()[0];
  EXPECT_EQ(reason_of(stopped), FinishReason::kStop);
  EXPECT_EQ(stopped.finished[0].stop_token, free[5]);
  EXPECT_EQ(stopped.tokens, std::vector<TokenId>(free.begin(), first + 1));

  request.sampling.min_tokens = 30;
  const SequenceRecord longer = submit(*engine, request).finish()[0];
  ASSERT_GE(longer.tokens.size(), 30U);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_NE(longer.tokens[i], free[5]);
    EXPECT_TRUE(free[i] == free[5] || longer.tokens[i] == free[i]);
  }

  request.sampling.stop_token_ids = fast_options().plain_ids;
  const SequenceRecord barred = submit(*engine, request).finish()[0];
  EXPECT_EQ(reason_of(barred), FinishReason::kError);
  EXPECT_THAT(barred.finished[0].error->message, HasSubstr("leave no token"));
}

TEST(NullEngine, EndsWhereTheModelsLengthEnds) {
  const auto engine = start_engine();
  const SequenceRecord record = submit(*engine, request_of(100000)).finish()[0];
  EXPECT_EQ(reason_of(record), FinishReason::kLength);
  EXPECT_THAT(record.tokens, SizeIs(512 - 3));
}

void expect_well_formed(const std::vector<TokenLogprob>& list, size_t num_top) {
  ASSERT_GE(list.size(), std::max<size_t>(1, num_top));
  ASSERT_LE(list.size(), num_top + 1);
  std::set<TokenId> ids;
  double sum = 0.0;
  for (size_t i = 0; i < list.size(); ++i) {
    ids.insert(list[i].id);
    sum += std::exp(static_cast<double>(list[i].logprob));
    EXPECT_TRUE(i < 2 || list[i].logprob < list[i - 1].logprob);
  }
  EXPECT_EQ(ids.size(), list.size()) << "an id twice";
  EXPECT_LT(sum, 1.0 + 1e-6);
}

TEST(NullEngine, MakesUpLogprobsThatAreWellFormed) {
  const auto engine = start_engine();
  EngineRequest request = request_of(50);
  for (int32_t token = 0; token < 200; ++token) request.prompt.push_back(token);
  for (const int32_t num_top : {0, 1, 5, 20}) {
    request.sampling.logprobs = num_top;
    request.sampling.prompt_logprobs = num_top;
    const SequenceRecord record = submit(*engine, request).finish()[0];
    ASSERT_THAT(record.logprobs, SizeIs(50));
    ASSERT_THAT(record.prompt_logprobs, SizeIs(202));
    for (size_t i = 0; i < 50; ++i) {
      expect_well_formed(record.logprobs[i], static_cast<size_t>(num_top));
      EXPECT_EQ(record.logprobs[i][0].id, record.tokens[i]);
    }
    for (size_t i = 0; i < 202; ++i) {
      expect_well_formed(record.prompt_logprobs[i], static_cast<size_t>(num_top));
      EXPECT_EQ(record.prompt_logprobs[i][0].id, request.prompt[i + 1]);
    }
  }
}

TEST(NullEngine, RunsSoManyAtOnceAndTheRestWaits) {
  NullEngineOptions options = slow_options();
  options.max_num_seqs = 2;
  options.max_num_live_seqs = 5;
  options.n_max = 5;
  const auto engine = start_engine(std::move(options));
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(submit(*engine, request_of(4)));
  while (engine->stats().num_waiting != 3) std::this_thread::yield();
  EXPECT_EQ(engine->stats().num_running, 2);
  EXPECT_EQ(engine->stats().num_live_seqs, 5);
  EXPECT_EQ(engine->stats().num_blocks_free, engine->stats().num_blocks - 1);  // 6 tokens of 16
  const auto refused = engine->submit(request_of(4), std::make_shared<EventQueue>(request_of(4)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);

  engine->cancel(streams[0].id);
  EXPECT_EQ(reason_of(streams[0].finish()[0]), FinishReason::kCancelled);
  while (engine->stats().num_waiting != 2) std::this_thread::yield();
  EXPECT_EQ(engine->stats().num_running, 2);
}

TEST(NullEngine, StartsTheLowestPriorityValueFirst) {
  NullEngineOptions options = fast_options();
  options.policy = SchedulingPolicy::kPriority;
  options.max_num_seqs = 1;
  options.time_to_first_token = milliseconds(2);
  const auto engine = start_engine(std::move(options));
  std::vector<Stream> streams;
  streams.push_back(submit(*engine, request_of(1)));
  for (const int32_t priority : {3, 1, 2}) {
    EngineRequest request = request_of(1);
    request.priority = priority;
    streams.push_back(submit(*engine, request));
  }
  std::vector<TimePoint> starts;
  for (Stream& stream : streams) {
    starts.push_back(*stream.finish()[0].finished[0].timings.first_scheduled);
  }
  EXPECT_LT(starts[2], starts[3]);
  EXPECT_LT(starts[3], starts[1]);
}

TEST(NullEngine, RefusesAWrongRequestWhereItIsSubmitted) {
  const auto engine = start_engine();
  const auto field_refused = [&](auto change) {
    EngineRequest request = request_of(4);
    change(request);
    const auto id = engine->submit(request, std::make_shared<EventQueue>(request));
    return id.ok() ? "none" : id.error().where;
  };
  EXPECT_EQ(field_refused([](EngineRequest&) {}), "none");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt.clear(); }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt.resize(512); }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt[2] = 200; }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.n = 129; }), "n");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.logprobs = 21; }), "logprobs");
}

TEST(NullEngine, RefusesOptionsThatCannotWork) {
  const auto field_refused = [](auto change) {
    NullEngineOptions options = fast_options();
    change(options);
    const auto engine = NullEngine::start(std::move(options));
    return engine.ok() ? "none" : engine.error().where;
  };
  EXPECT_EQ(field_refused([](NullEngineOptions&) {}), "none");
  EXPECT_EQ(field_refused([](auto& o) { o.vocab_size = 0; }), "vocab_size");
  EXPECT_EQ(field_refused([](auto& o) { o.vocab_size = 149; }), "plain_ids");
  EXPECT_EQ(field_refused([](auto& o) { o.plain_ids.resize(20); }), "plain_ids");
  EXPECT_EQ(field_refused([](auto& o) { o.plain_ids[1] = o.plain_ids[0]; }), "plain_ids");
  EXPECT_EQ(field_refused([](auto& o) { o.plain_ids[1] = -1; }), "plain_ids");
  EXPECT_EQ(field_refused([](auto& o) { o.logprobs_max = -1; }), "logprobs_max");
  EXPECT_EQ(field_refused([](auto& o) { o.tokens_per_second = 0.0; }), "tokens_per_second");
  EXPECT_EQ(
      field_refused([](auto& o) { o.tokens_per_second = std::nan(""); }), "tokens_per_second"
  );
  EXPECT_EQ(
      field_refused([](auto& o) { o.time_to_first_token = -milliseconds(1); }),
      "time_to_first_token"
  );
  EXPECT_EQ(field_refused([](auto& o) { o.max_model_len = 1; }), "max_model_len");
  EXPECT_EQ(field_refused([](auto& o) { o.max_num_seqs = 0; }), "max_num_seqs");
  EXPECT_EQ(field_refused([](auto& o) { o.max_num_live_seqs = 0; }), "n_max");
  EXPECT_EQ(field_refused([](auto& o) { o.block_size = 0; }), "block_size");
  EXPECT_EQ(
      field_refused([](auto& o) { o.admission.max_num_queued_reqs = 0; }), "max_num_queued_reqs"
  );
  EXPECT_EQ(
      field_refused([](auto& o) {
        o.max_num_seqs = o.max_num_live_seqs = std::numeric_limits<int32_t>::max() / 8;
        o.max_model_len = 1 << 20;
      }),
      "none"
  );
}

TEST(NullEngine, CancelsOneChoiceWhateverIsAskedHowOften) {
  const auto engine = start_engine(slow_options());
  EngineRequest request = request_of(20);
  request.sampling.n = 2;
  Stream stream = submit(*engine, std::move(request));
  for (int i = 0; i < 1000; ++i) engine->cancel(stream.id, 0);
  engine->cancel(RequestId{12345}, 0);
  const EngineEvent event = stream.queue->next();
  EXPECT_EQ(std::get<FinishedEvent>(event).choice, 0);
  EXPECT_EQ(std::get<FinishedEvent>(event).num_choices_unfinished, 1);
  EXPECT_EQ(engine->stats().num_live_seqs, 1);
  engine->cancel(stream.id, 0);
  engine->cancel(stream.id);
  EXPECT_EQ(std::get<FinishedEvent>(stream.queue->next()).choice, 1);
  engine->cancel(stream.id);
}

// What was cancelled long before it was due must not pile up.
TEST(NullEngine, ForgetsWhatWasCancelled) {
  const auto engine = start_engine(slow_options());
  Stream kept = submit(*engine, request_of(4));
  for (int i = 0; i < 5000; ++i) {
    Stream stream = submit(*engine, request_of(4));
    engine->cancel(stream.id);
    EXPECT_EQ(reason_of(stream.finish()[0]), FinishReason::kCancelled);
    EXPECT_LE(stream.queue.use_count(), 2);
  }
  engine->cancel(kept.id);
  EXPECT_EQ(reason_of(kept.finish()[0]), FinishReason::kCancelled);
}

TEST(NullEngine, EndsARequestAtItsDeadlineWhetherItRunsOrWaits) {
  NullEngineOptions options = slow_options();
  options.max_num_seqs = 1;
  const auto engine = start_engine(std::move(options));
  EngineRequest request = request_of(4);
  request.sampling.n = 2;
  request.deadline = Clock::now() + milliseconds(100);
  const auto records = submit(*engine, request).finish(2);
  EXPECT_GE(Clock::now(), *request.deadline);
  for (const SequenceRecord& record : records) {
    EXPECT_EQ(reason_of(record), FinishReason::kDeadline);
    EXPECT_TRUE(record.tokens.empty());
  }
  request.deadline = Clock::now() - hours(1);
  const auto late = engine->submit(request, std::make_shared<EventQueue>(request));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
}

TEST(NullEngine, FailsARequestThatIsToldToFailAndNoOther) {
  NullEngineOptions options = fast_options();
  options.faults = {.failing_first_token = 9, .num_tokens_before_failure = 3};
  const auto engine = start_engine(std::move(options));
  EngineRequest request = request_of(8);
  request.prompt[0] = 9;
  request.sampling.n = 2;
  Stream failing = submit(*engine, request);
  Stream good = submit(*engine, request_of(8));
  for (const SequenceRecord& record : failing.finish(2)) {
    EXPECT_EQ(reason_of(record), FinishReason::kError);
    EXPECT_EQ(record.finished[0].error->code, ErrorCode::kInternal);
    EXPECT_THAT(record.tokens, SizeIs(3));
  }
  EXPECT_THAT(good.finish()[0].tokens, SizeIs(8));
}

TEST(NullEngine, IsSeenToStandStillWhenItIsToldTo) {
  NullEngineOptions options = fast_options();
  options.faults = {.num_steps_before_stall = 2, .stall_time = milliseconds(400)};
  const auto engine = start_engine(std::move(options));
  Stream stream = submit(*engine, request_of(8));
  Duration age_max{0};
  while (engine->stats().num_live_seqs > 0) {
    const EngineStats stats = engine->stats();
    if (stats.working_since) age_max = std::max(age_max, Clock::now() - *stats.working_since);
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GE(age_max, milliseconds(50));
  EXPECT_THAT(stream.finish()[0].tokens, SizeIs(8));
}

TEST(NullEngine, IsNotStuckWhileNothingIsDue) {
  const auto engine = start_engine(slow_options());
  Stream stream = submit(*engine, request_of(8));
  // As soon as it sleeps until the first token is due.
  for (;;) {
    const TimePoint before = Clock::now();
    const EngineStats stats = engine->stats();
    ASSERT_TRUE(stats.working_since.has_value());
    if (*stats.working_since >= before) break;
    std::this_thread::sleep_for(milliseconds(1));
    ASSERT_LT(before - *stats.working_since, std::chrono::seconds(20));
  }
}

TEST(NullEngine, ASinkMaySubmitAndCancel) {
  class Relay final : public EventSink {
   public:
    explicit Relay(std::atomic<Engine*>& engine) : engine_(engine) {}
    void on_event(EngineEvent event) override {
      Engine& engine = *engine_.load();
      if (const auto* token = std::get_if<TokenEvent>(&event)) engine.cancel(token->request);
      if (const auto* end = std::get_if<FinishedEvent>(&event)) {
        reason = end->reason;
        queue = std::make_shared<EventQueue>(request_of(2));
        // The only place is free again before the end is told.
        is_accepted = engine.submit(request_of(2), queue).ok();
        done.release();
      }
    }
    std::binary_semaphore done{0};
    std::optional<FinishReason> reason;
    std::shared_ptr<EventQueue> queue;
    bool is_accepted = false;

   private:
    std::atomic<Engine*>& engine_;
  };

  std::atomic<Engine*> address{nullptr};
  NullEngineOptions options = fast_options();
  options.max_num_live_seqs = 1;
  options.n_max = 1;
  const auto engine = start_engine(std::move(options));
  address = engine.get();
  const auto relay = std::make_shared<Relay>(address);
  ASSERT_TRUE(engine->submit(request_of(400), relay).ok());
  relay->done.acquire();
  EXPECT_EQ(relay->reason, FinishReason::kCancelled);
  ASSERT_TRUE(relay->is_accepted);
  while (!std::holds_alternative<FinishedEvent>(relay->queue->next())) {
  }
}

TEST(NullEngine, GivesUpASinkAfterTheLastEvent) {
  const auto engine = start_engine();
  Stream stream = submit(*engine, request_of(2));
  stream.finish();
  submit(*engine, request_of(2)).finish();  // by now the first is surely forgotten
  EXPECT_EQ(stream.queue.use_count(), 1);
}

TEST(NullEngine, DrainFinishesWhatWasAccepted) {
  NullEngineOptions options = fast_options();
  options.max_num_seqs = 2;
  options.time_to_first_token = milliseconds(5);
  const auto engine = start_engine(std::move(options));
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(submit(*engine, request_of(10)));
  engine->shutdown(ShutdownMode::kDrain);
  EXPECT_EQ(engine->stats().num_live_seqs, 0);
  const auto late = engine->submit(request_of(2), std::make_shared<EventQueue>(request_of(2)));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kCancelled);
  for (Stream& stream : streams) EXPECT_THAT(stream.finish()[0].tokens, SizeIs(10));
  engine->shutdown(ShutdownMode::kAbort);
}

TEST(NullEngine, AbortCancelsWhatWasAcceptedAlsoAfterADrainBegan) {
  NullEngineOptions options = slow_options();
  options.max_num_seqs = 2;
  const auto engine = start_engine(std::move(options));
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(submit(*engine, request_of(10)));
  {
    std::jthread drain([&] { engine->shutdown(ShutdownMode::kDrain); });
    std::this_thread::sleep_for(milliseconds(5));
    std::jthread abort([&] { engine->shutdown(ShutdownMode::kAbort); });
  }
  for (Stream& stream : streams) EXPECT_EQ(reason_of(stream.finish()[0]), FinishReason::kCancelled);
}

TEST(NullEngine, DestructionEndsEveryRequest) {
  Stream stream;
  {
    const auto engine = start_engine(slow_options());
    stream = submit(*engine, request_of(50));
  }
  EXPECT_EQ(reason_of(stream.finish()[0]), FinishReason::kCancelled);
  EXPECT_EQ(stream.queue.use_count(), 1);
}

TEST(NullEngine, UsesNoCpuWhileNothingIsDue) {
  const auto engine = start_engine(slow_options());
  Stream stream = submit(*engine, request_of(2));
  std::this_thread::sleep_for(milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(200));
  const double cpu_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_seconds, 0.05);
}

TEST(NullEngine, ServesManyThreadsAtOnce) {
  constexpr int kNumThreads = 4;
  constexpr int kNumRequests = 100;
  NullEngineOptions options = fast_options();
  options.max_num_seqs = 8;
  options.tokens_per_second = 20000.0;
  options.faults.failing_first_token = 9;
  const auto engine = start_engine(std::move(options));
  std::atomic<int> num_over{0};
  const auto client = [&](uint64_t key) {
    Rng rng(key);
    for (int i = 0; i < kNumRequests; ++i) {
      EngineRequest request = request_of(static_cast<int32_t>(1 + rng.below(30)), rng.next());
      request.prompt[0] = static_cast<TokenId>(rng.below(10));
      request.sampling.n = static_cast<int32_t>(1 + rng.below(3));
      if (rng.below(4) == 0) {
        request.deadline = Clock::now() + std::chrono::microseconds(rng.below(1000));
      }
      const int32_t n = request.sampling.n;
      Stream stream{.id = {}, .queue = std::make_shared<EventQueue>(request)};
      const Result<RequestId> id = engine->submit(request, stream.queue);
      if (!id) {
        EXPECT_EQ(id.error().code, ErrorCode::kDeadlineExceeded) << id.error().message;
        continue;
      }
      stream.id = *id;
      if (rng.below(3) == 0) engine->cancel(stream.id, 0);
      if (rng.below(5) == 0) engine->cancel(stream.id);
      for (const SequenceRecord& record : stream.finish(n)) num_over += record.finished.size() == 1;
      num_over -= n;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint64_t key = 0; key < kNumThreads; ++key) threads.emplace_back(client, key);
  }
  EXPECT_EQ(num_over, 0);
  EXPECT_EQ(engine->stats().num_live_seqs, 0);
}

}  // namespace
}  // namespace millrace
