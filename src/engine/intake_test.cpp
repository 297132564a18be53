#include "engine/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error_reason.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class NoSink final : public EventSink {
 public:
  void on_event(EngineEvent) override {}
};

SchedulerConfig scheduler_config() {
  return {.max_model_len = 1000, .block_size = 16, .num_blocks = 1000};
}

EngineLimits limits_of(AdmissionLimits admission = {}) {
  return {
      .vocab_size = 10,
      .num_sequence_tokens_max = 1000,
      .n_max = 4,
      .logprobs_max = 20,
      .max_num_seqs = 2,
      .max_num_live_seqs = 6,
      .admission = admission,
  };
}

EngineRequest request_of(std::string tenant = "", size_t num_prompt_tokens = 3) {
  EngineRequest request{.prompt = std::vector<TokenId>(num_prompt_tokens, 1)};
  request.tenant = std::move(tenant);
  return request;
}

Result<RequestId> submit(Intake& intake, EngineRequest request) {
  return intake.submit(std::move(request), std::make_shared<NoSink>());
}

// The id that the engine gets, where the request was accepted.
TenantId tenant_of(Intake& intake, EngineRequest request) {
  EXPECT_TRUE(submit(intake, std::move(request)).ok());
  auto command = intake.try_pop();
  return std::get<Intake::Submission>(*command).request.tenant;
}

EngineStats stats_of(const Intake& intake) {
  EngineStats stats;
  intake.fill(stats);
  return stats;
}

FinishedEvent end_of(RequestId id, bool has_run = true) {
  FinishedEvent event{.request = id};
  if (has_run) event.timings.first_scheduled = Clock::now();
  return event;
}

TEST(Intake, HandsTheTenantAndItsSaltOn) {
  Intake intake(scheduler_config(), limits_of(), 0);
  EXPECT_EQ(tenant_of(intake, request_of()), TenantId{0});
  const TenantId a = tenant_of(intake, request_of("a"));
  EXPECT_NE(a, TenantId{0});
  EXPECT_NE(tenant_of(intake, request_of("b")), a);
  EXPECT_EQ(tenant_of(intake, request_of("a")), a);
}

TEST(Intake, FullIsTheFaultOfWhoHoldsMoreThanItsShare) {
  Intake intake(scheduler_config(), limits_of(), 0);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(submit(intake, request_of("greedy")).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submit(intake, request_of("modest")).ok());
  const Result<RequestId> greedy = submit(intake, request_of("greedy"));
  const Result<RequestId> modest = submit(intake, request_of("modest"));
  const Result<RequestId> newcomer = submit(intake, request_of());
  for (const Result<RequestId>& refused : {greedy, modest, newcomer}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(refused.error().message, HasSubstr("6 sequences run or wait, and at most 6 may"));
    EXPECT_EQ(refused.error().retry_after, std::chrono::seconds(1));
  }
  EXPECT_EQ(greedy.error().reason, error_reason::kRateLimit);
  EXPECT_EQ(modest.error().reason, "");
  EXPECT_EQ(newcomer.error().reason, "");
  EXPECT_EQ(stats_of(intake).num_refused[index_of(RefusalReason::kLiveSeqs)], 3);
}

TEST(Intake, WhoIsAloneFillsTheServerAndNoShare) {
  Intake intake(scheduler_config(), limits_of(), 0);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(submit(intake, request_of("only")).ok());
  EXPECT_EQ(submit(intake, request_of("only")).error().reason, "");
}

TEST(Intake, BoundsTheQueueFromTheMomentOfTheCheck) {
  Intake intake(scheduler_config(), limits_of({.max_num_queued_reqs = 2}), 0);
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) {
    const Result<RequestId> id = submit(intake, request_of());
    ASSERT_TRUE(id.ok());
    ids.push_back(*id);
  }
  EXPECT_THAT(submit(intake, request_of()).error().message, HasSubstr("2 sequences wait"));

  // The engine takes the first three, and is at its step when it ends: nothing has changed.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(intake.try_pop());
  EXPECT_FALSE(submit(intake, request_of()).ok());
  intake.note_step({.num_running = 2, .num_waiting = 1, .num_waiting_tokens = 3});
  EXPECT_EQ(stats_of(intake).num_queued_seqs, 2);
  EXPECT_FALSE(submit(intake, request_of()).ok());

  ASSERT_TRUE(intake.try_pop());
  intake.account(end_of(ids[0]));
  intake.note_step({.num_running = 1, .num_waiting = 1, .num_waiting_tokens = 3});
  EXPECT_EQ(stats_of(intake).num_queued_seqs, 1);
  EXPECT_TRUE(submit(intake, request_of()).ok());
  EXPECT_FALSE(submit(intake, request_of()).ok());
  EXPECT_EQ(stats_of(intake).num_refused[index_of(RefusalReason::kQueuedReqs)], 4);
}

TEST(Intake, RefusesForGoodWhatCouldNeverBeHeld) {
  Intake intake(scheduler_config(), limits_of({.max_result_bytes = 10'000}), 0);
  const auto field_refused = [&](auto change) {
    EngineRequest request = request_of("", 100);
    change(request);
    const Result<RequestId> id = submit(intake, request);
    if (id.ok()) return std::string("none");
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument) << id.error().message;
    return id.error().where;
  };
  EXPECT_EQ(field_refused([](EngineRequest&) {}), "none");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.prompt_logprobs = 20; }), "prompt_logprobs");
  EXPECT_EQ(
      field_refused([](auto& r) {
        r.sampling.max_tokens = 100;
        r.sampling.logprobs = 20;
      }),
      "logprobs"
  );
  EXPECT_EQ(
      field_refused([](auto& r) {
        r.sampling.max_tokens = 900;
        r.sampling.n = 2;
      }),
      "n"
  );
}

TEST(Intake, HoldsResultsUntilTheyEnd) {
  Intake intake(scheduler_config(), limits_of({.max_result_bytes = 10'000}), 0);
  EngineRequest request = request_of("", 10);
  request.sampling.max_tokens = 900;
  const Result<RequestId> first = submit(intake, request);
  ASSERT_TRUE(first.ok());
  const Result<RequestId> second = submit(intake, request);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(stats_of(intake).num_refused[index_of(RefusalReason::kResultBytes)], 1);
  intake.account(end_of(*first, false));
  EXPECT_TRUE(submit(intake, request).ok());
}

TEST(Intake, RefusesWhatIsTooLateAlready) {
  Intake intake(scheduler_config(), limits_of(), 0);
  EngineRequest request = request_of();
  request.deadline = Clock::now() - std::chrono::milliseconds(1);
  EXPECT_EQ(submit(intake, request).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(stats_of(intake).num_refused[index_of(RefusalReason::kDeadline)], 1);
  EXPECT_EQ(stats_of(intake).num_live_seqs, 0);
  request.deadline = Clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(submit(intake, request).ok());
}

TEST(Intake, SaysWhenToComeBackByItsOwnSpeed) {
  Intake intake(scheduler_config(), limits_of({.max_num_queued_tokens = 1000}), 0);
  ASSERT_TRUE(submit(intake, request_of("", 900)).ok());
  ASSERT_TRUE(submit(intake, request_of("", 900)).ok());
  ASSERT_TRUE(submit(intake, request_of("", 900)).ok());
  while (intake.try_pop()) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  // So few tokens that the rest takes longer than anyone is told to wait.
  intake.note_step(
      {.num_running = 2, .num_waiting = 1, .num_waiting_tokens = 900, .num_tokens_computed = 0}
  );
  EXPECT_EQ(submit(intake, request_of("", 900)).error().retry_after, std::chrono::seconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  intake.note_step(
      {.num_running = 2, .num_waiting = 1, .num_waiting_tokens = 900, .num_tokens_computed = 1}
  );
  EXPECT_GT(stats_of(intake).computed_tokens_per_second, 0.0);
  EXPECT_LT(stats_of(intake).computed_tokens_per_second, 11.0);
  EXPECT_EQ(submit(intake, request_of("", 900)).error().retry_after, std::chrono::seconds(60));
}

TEST(Intake, LimitsMustLetSomethingPass) {
  EXPECT_TRUE(check_admission({}).ok());
  EXPECT_EQ(check_admission({.max_num_queued_reqs = 0}).error().where, "max_num_queued_reqs");
  EXPECT_EQ(check_admission({.max_num_queued_tokens = -1}).error().where, "max_num_queued_tokens");
  EXPECT_EQ(check_admission({.max_result_bytes = 0}).error().where, "max_result_bytes");
}

}  // namespace
}  // namespace millrace
