#include "server/health.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <semaphore>
#include <vector>

#include "engine/event_queue.h"
#include "engine/null_engine.h"
#include "server/engine_watchdog.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(60);
constexpr TimePoint kNow{seconds(1000)};

EngineStats working_for(Duration age) {
  return {.num_live_seqs = 1, .working_since = kNow - age};
}

TEST(Health, AnIdleServerIsLiveAndReady) {
  const Health health = judge_health(ServerPhase::kServing, {}, kNow, kTimeout);
  EXPECT_TRUE(health.is_live);
  EXPECT_TRUE(health.is_ready);
  EXPECT_EQ(to_json(health), R"({"status":"ok"})");
}

TEST(Health, AServerThatLoadsOrDrainsIsLiveAndNotReady) {
  const Health loading = judge_health(ServerPhase::kStarting, {}, kNow, kTimeout);
  EXPECT_TRUE(loading.is_live);
  EXPECT_FALSE(loading.is_ready);
  EXPECT_EQ(to_json(loading), R"({"status":"loading"})");
  const Health draining =
      judge_health(ServerPhase::kDraining, working_for(seconds(5)), kNow, kTimeout);
  EXPECT_TRUE(draining.is_live);
  EXPECT_FALSE(draining.is_ready);
  EXPECT_EQ(to_json(draining), R"({"status":"draining"})");
}

TEST(Health, AStuckEngineIsNeitherLiveNorReadyInAnyPhase) {
  for (const ServerPhase phase : {ServerPhase::kServing, ServerPhase::kDraining}) {
    const Health health = judge_health(phase, working_for(milliseconds(61500)), kNow, kTimeout);
    EXPECT_FALSE(health.is_live);
    EXPECT_FALSE(health.is_ready);
    EXPECT_EQ(to_json(health), R"({"status":"stalled","stalled_s":61.5})");
  }
}

TEST(Health, AStepMayTakeAsLongAsTheTimeout) {
  EXPECT_TRUE(judge_health(ServerPhase::kServing, working_for(kTimeout), kNow, kTimeout).is_ready);
  const Duration longer = kTimeout + milliseconds(1);
  EXPECT_FALSE(judge_health(ServerPhase::kServing, working_for(longer), kNow, kTimeout).is_live);
}

TEST(StallDetector, TellsOfAStallOnceAndOfItsEndOnce) {
  StallDetector detector(kTimeout);
  EngineStats stats{.num_live_seqs = 1, .working_since = kNow};
  EXPECT_FALSE(detector.observe(stats, kNow + seconds(59)));
  const auto begin = detector.observe(stats, kNow + seconds(61));
  ASSERT_TRUE(begin.has_value());
  EXPECT_EQ(message_of(*begin), "the engine has not finished a step for 61.0 s");
  EXPECT_FALSE(detector.observe(stats, kNow + seconds(76)));
  stats.working_since = kNow + seconds(80);
  const auto end = detector.observe(stats, kNow + seconds(81));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(message_of(*end), "the engine goes on after 81.0 s without a step");
  EXPECT_FALSE(detector.observe(stats, kNow + seconds(96)));
  EXPECT_FALSE(detector.observe({}, kNow + seconds(200)));
}

TEST(StallDetector, TellsOfTheNextStall) {
  StallDetector detector(kTimeout);
  EngineStats stats{.num_live_seqs = 1, .working_since = kNow};
  EXPECT_TRUE(detector.observe(stats, kNow + seconds(61)));
  stats.working_since = kNow + seconds(70);
  const auto second = detector.observe(stats, kNow + seconds(135));
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->is_over);
  EXPECT_EQ(second->age, seconds(65));
}

TEST(EngineWatchdog, SeesARealEngineStandStillAndGoOn) {
  NullEngineOptions options{.vocab_size = 100, .tokens_per_second = 1e6};
  options.plain_ids.resize(50);
  std::iota(options.plain_ids.begin(), options.plain_ids.end(), 0);
  options.faults = {.num_steps_before_stall = 2, .stall_time = milliseconds(400)};
  auto engine = NullEngine::start(std::move(options));
  ASSERT_TRUE(engine.ok());

  std::counting_semaphore<> has_news{0};
  std::vector<StallNews> news;
  auto watchdog = std::make_unique<EngineWatchdog>(EngineWatchdog::Options{
      .stall_timeout = milliseconds(40),
      .read_stats = [&] { return (*engine)->stats(); },
      .on_news =
          [&](const StallNews& one) {
            news.push_back(one);
            if (one.is_over) has_news.release();
          },
  });
  EngineRequest request{.prompt = {1}};
  request.sampling.max_tokens = 10;
  const auto queue = std::make_shared<EventQueue>(request);
  ASSERT_TRUE((*engine)->submit(request, queue).ok());
  has_news.acquire();
  watchdog.reset();
  ASSERT_GE(news.size(), 2U);  // more on a machine so busy that the engine's thread gets no turn
  EXPECT_FALSE(news[0].is_over);
  EXPECT_GT(news[0].age, milliseconds(40));
  EXPECT_GT(news[1].age, news[0].age);
}

TEST(EngineWatchdog, StopsAtOnce) {
  const TimePoint begin = Clock::now();
  {
    const EngineWatchdog watchdog({
        .stall_timeout = std::chrono::hours(1),
        .read_stats = [] { return EngineStats(); },
        .on_news = [](const StallNews&) { ADD_FAILURE() << "nothing is stuck"; },
    });
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::minutes(1));
}

}  // namespace
}  // namespace millrace
