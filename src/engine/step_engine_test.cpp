#include "engine/step_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <semaphore>
#include <thread>

#include "base/rng.h"
#include "engine/event_queue.h"
#include "engine/fake_model_runner.h"
#include "engine/reference_run.h"
#include "engine/test_stream.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr size_t kVocabSize = 24;

std::unique_ptr<StepEngine> start_engine(
    EngineConfig config = {}, std::function<void()> on_forward = {}, TokenId poison = -1
) {
  auto engine = StepEngine::start(
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
          .vocab_size = kVocabSize,
          .max_model_len = 64,
          .num_blocks = 64,
          .poison = poison,
          .on_forward = std::move(on_forward),
      }),
      std::move(config)
  );
  EXPECT_TRUE(engine.ok());
  return std::move(*engine);
}

EngineRequest request_of_length(size_t num_prompt_tokens, int32_t max_tokens) {
  EngineRequest request;
  for (size_t i = 0; i < num_prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(i * 5 % 20));
  }
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.bad_words = {{23}};  // the poison
  return request;
}

// Holds the engine thread within its forward pass until it is opened.
class Gate {
 public:
  std::function<void()> hook() {
    return [this] {
      num_waiting_.fetch_add(1);
      num_waiting_.notify_all();
      is_open_.wait(false);
    };
  }
  void wait_until_held() { num_waiting_.wait(0); }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  std::atomic<int> num_waiting_{0};
  std::atomic<bool> is_open_{false};
};

TEST(Engine, SaysWhatTheModelSays) {
  const auto engine = start_engine();
  EngineRequest request = request_of_length(30, 20);
  request.sampling.seed = 7;
  request.sampling.n = 2;
  request.sampling.prompt_logprobs = 1;
  const std::vector<SequenceRecord> records = submit(*engine, request).finish(2);
  const Request alone{.prompt = request.prompt, .sampling = request.sampling, .seed = 7};
  for (int32_t choice = 0; choice < 2; ++choice) {
    const SequenceRecord expected =
        run_alone(alone, choice, engine->scheduler_config(), {.vocab_size = kVocabSize});
    EXPECT_EQ(records[static_cast<size_t>(choice)].tokens, expected.tokens);
    EXPECT_EQ(records[static_cast<size_t>(choice)].prompt_logprobs, expected.prompt_logprobs);
  }
  const SequenceTimings& timings = records[0].finished[0].timings;
  EXPECT_LE(timings.arrival, *timings.first_scheduled);
  EXPECT_LE(*timings.first_scheduled, *timings.first_token);
  EXPECT_LE(*timings.first_token, *timings.last_token);
}

TEST(Engine, RefusesLimitsThatCannotWork) {
  const auto field_refused = [](EngineConfig config) {
    auto runner = std::make_unique<FakeModelRunner>(FakeModelRunner::Options{});
    const auto engine = StepEngine::start(std::move(runner), std::move(config));
    return engine.ok() ? "none" : engine.error().where;
  };
  EXPECT_EQ(field_refused({}), "none");
  EXPECT_EQ(field_refused({.max_num_seqs = 0}), "max_num_seqs");
  EXPECT_EQ(field_refused({.max_model_len = 65}), "max_model_len");
  EXPECT_EQ(field_refused({.max_model_len = 0}), "max_model_len");
  EXPECT_EQ(field_refused({.n_max = 0}), "n_max");
  EXPECT_EQ(field_refused({.max_num_live_seqs = 0}), "n_max");
  EXPECT_EQ(field_refused({.admission = {.max_num_queued_tokens = 0}}), "max_num_queued_tokens");
  EXPECT_EQ(field_refused({.admission = {.max_result_bytes = 0}}), "max_result_bytes");
  EXPECT_EQ(field_refused({.eos_token_ids = {2, 24}}), "eos_token_ids");
  EXPECT_EQ(field_refused({.eos_token_ids = {-1}}), "eos_token_ids");
}

TEST(Engine, RefusesAWrongRequestWhereItIsSubmitted) {
  const auto engine = start_engine();
  const auto field_refused = [&](auto change) {
    EngineRequest request = request_of_length(4, 4);
    change(request);
    const auto id = engine->submit(request, std::make_shared<EventQueue>(request));
    return id.ok() ? "none" : id.error().where;
  };
  EXPECT_EQ(field_refused([](EngineRequest&) {}), "none");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt.clear(); }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt.resize(64); }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt[2] = 24; }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.prompt[2] = -1; }), "prompt");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.n = 129; }), "n");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(field_refused([](auto& r) { r.sampling.stop_token_ids = {24}; }), "stop_token_ids[0]");
}

TEST(Engine, RefusesMoreThanItMayHoldAndAcceptsAgainAfterAnEnd) {
  Gate gate;
  const auto engine = start_engine({.max_num_live_seqs = 3, .n_max = 3}, gate.hook());
  Stream first = submit(*engine, request_of_length(2, 3));
  EngineRequest pair = request_of_length(2, 3);
  pair.sampling.n = 2;
  Stream second = submit(*engine, pair);
  gate.wait_until_held();
  EXPECT_EQ(engine->stats().num_live_seqs, 3);

  EngineRequest third = request_of_length(2, 3);
  const auto refused = engine->submit(third, std::make_shared<EventQueue>(third));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("3 sequences run or wait"));

  gate.open();
  first.finish();
  submit(*engine, third).finish();
  second.finish(2);
}

TEST(Engine, CancelsOneChoiceWhateverIsAskedHowOften) {
  Gate gate;
  const auto engine = start_engine({}, gate.hook());
  EngineRequest request = request_of_length(2, 20);
  request.sampling.n = 2;
  Stream stream = submit(*engine, std::move(request));
  gate.wait_until_held();
  for (int i = 0; i < 100000; ++i) engine->cancel(stream.id, 0);  // far more than the inbox holds
  engine->cancel(RequestId{12345}, 0);
  gate.open();
  const std::vector<SequenceRecord> records = stream.finish(2);
  EXPECT_EQ(records[0].finished[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(records[1].finished[0].reason, FinishReason::kLength);
  EXPECT_EQ(records[1].tokens.size(), 20U);
  engine->cancel(stream.id, 1);
}

TEST(Engine, MarksTheTokenThatStopsAChoice) {
  const auto engine = start_engine();
  EngineRequest request = request_of_length(4, 10);
  request.sampling.seed = 3;
  const SequenceRecord free = submit(*engine, request).finish()[0];
  request.sampling.stop_token_ids = {free.tokens[2]};
  auto queue = std::make_shared<EventQueue>(request);
  ASSERT_TRUE(engine->submit(request, queue).ok());
  for (;;) {
    const EngineEvent event = queue->next();
    const auto* token = std::get_if<TokenEvent>(&event);
    if (token == nullptr) break;
    EXPECT_EQ(token->is_stop_token, token->token.id == free.tokens[2]);
  }
}

TEST(Engine, CancelsOnceWhateverIsAskedHowOften) {
  Gate gate;
  const auto engine = start_engine({}, gate.hook());
  Stream stream = submit(*engine, request_of_length(2, 60));
  gate.wait_until_held();
  for (int i = 0; i < 100000; ++i) engine->cancel(stream.id);  // far more than the inbox holds
  engine->cancel(RequestId{12345});
  gate.open();
  const SequenceRecord record = stream.finish()[0];
  EXPECT_EQ(record.finished[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(record.tokens.size(), 1U);
  engine->cancel(stream.id);
  EXPECT_EQ(submit(*engine, request_of_length(2, 3)).finish()[0].tokens.size(), 3U);
}

TEST(Engine, RefusesARequestWhoseDeadlineHasPassed) {
  const auto engine = start_engine();
  EngineRequest request = request_of_length(2, 60);
  request.deadline = Clock::now() - std::chrono::seconds(1);
  const auto late = engine->submit(request, std::make_shared<EventQueue>(request));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
}

TEST(Engine, ABrokenRequestTouchesNoOther) {
  const auto engine = start_engine({}, {}, 23);
  EngineRequest request = request_of_length(9, 20);
  request.sampling.seed = 1;
  Stream good = submit(*engine, request);
  EngineRequest poisoned = request;
  poisoned.prompt[4] = 23;
  Stream bad = submit(*engine, poisoned);
  EXPECT_EQ(bad.finish()[0].finished[0].reason, FinishReason::kError);
  const Request alone{.prompt = request.prompt, .sampling = request.sampling, .seed = 1};
  EXPECT_EQ(
      good.finish()[0].tokens,
      run_alone(alone, 0, engine->scheduler_config(), {.vocab_size = kVocabSize}).tokens
  );
}

TEST(Engine, DrawsSeedsThatFollowFromItsOwn) {
  const auto tokens_of = [](uint64_t engine_seed) {
    const auto engine = start_engine({.seed = engine_seed});
    std::vector<std::vector<TokenId>> tokens;
    for (int i = 0; i < 2; ++i) {
      tokens.push_back(submit(*engine, request_of_length(3, 16)).finish()[0].tokens);
    }
    return tokens;
  };
  const auto tokens = tokens_of(1);
  EXPECT_NE(tokens[0], tokens[1]) << "two requests without a seed";
  EXPECT_EQ(tokens, tokens_of(1));
  EXPECT_NE(tokens, tokens_of(2));
}

TEST(Engine, ASinkMaySubmitAndCancel) {
  class Relay final : public EventSink {
   public:
    explicit Relay(std::atomic<Engine*>& engine) : engine_(engine) {}
    void on_event(EngineEvent event) override {
      Engine& engine = *engine_.load();
      if (std::holds_alternative<TokenEvent>(event)) engine.cancel(request_of(event));
      if (const auto* end = std::get_if<FinishedEvent>(&event)) {
        reason = end->reason;
        EngineRequest next = request_of_length(2, 2);
        queue = std::make_shared<EventQueue>(next);
        // The only place is free again before the end is told.
        is_accepted = engine.submit(next, queue).ok();
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
  const auto engine = start_engine({.max_num_live_seqs = 1, .n_max = 1});
  address = engine.get();
  const auto relay = std::make_shared<Relay>(address);
  ASSERT_TRUE(engine->submit(request_of_length(2, 60), relay).ok());
  relay->done.acquire();
  EXPECT_EQ(relay->reason, FinishReason::kCancelled);
  ASSERT_TRUE(relay->is_accepted);
  while (!std::holds_alternative<FinishedEvent>(relay->queue->next())) {
  }
}

TEST(Engine, GivesUpASinkAfterTheLastEvent) {
  const auto engine = start_engine();
  Stream stream = submit(*engine, request_of_length(2, 2));
  stream.finish();
  submit(*engine, request_of_length(2, 2)).finish();  // by now the first is surely forgotten
  EXPECT_EQ(stream.queue.use_count(), 1);
}

TEST(Engine, DrainFinishesWhatWasAccepted) {
  Gate gate;
  const auto engine = start_engine({.max_num_seqs = 2}, gate.hook());
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(submit(*engine, request_of_length(6, 10)));
  gate.wait_until_held();
  std::jthread drain([&] { engine->shutdown(ShutdownMode::kDrain); });
  // Refused as soon as the shutdown has begun.
  const EngineRequest late = request_of_length(2, 2);
  for (;;) {
    const auto id = engine->submit(late, std::make_shared<EventQueue>(late));
    if (!id.ok()) {
      EXPECT_EQ(id.error().code, ErrorCode::kCancelled);
      break;
    }
    std::this_thread::yield();
  }
  gate.open();
  for (Stream& stream : streams) EXPECT_EQ(stream.finish()[0].tokens.size(), 10U);
  drain.join();
  EXPECT_EQ(engine->stats().num_live_seqs, 0);
}

TEST(Engine, ARequestCanBeCancelledDuringADrain) {
  Gate gate;
  const auto engine = start_engine({}, gate.hook());
  Stream stream = submit(*engine, request_of_length(6, 50));
  gate.wait_until_held();
  std::jthread drain([&] { engine->shutdown(ShutdownMode::kDrain); });
  engine->cancel(stream.id);
  gate.open();
  EXPECT_EQ(stream.finish()[0].finished[0].reason, FinishReason::kCancelled);
}

TEST(Engine, AbortCancelsWhatWasAcceptedAlsoAfterADrainBegan) {
  Gate gate;
  const auto engine = start_engine({.max_num_seqs = 2}, gate.hook());
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(submit(*engine, request_of_length(6, 50)));
  gate.wait_until_held();
  {
    std::jthread drain([&] { engine->shutdown(ShutdownMode::kDrain); });
    std::jthread abort([&] { engine->shutdown(ShutdownMode::kAbort); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  }
  for (Stream& stream : streams) {
    EXPECT_EQ(stream.finish()[0].finished[0].reason, FinishReason::kCancelled);
  }
  engine->shutdown(ShutdownMode::kDrain);
}

TEST(Engine, DestructionEndsEveryRequest) {
  Stream stream;
  {
    const auto engine = start_engine();
    EngineRequest request = request_of_length(6, 50);
    stream = submit(*engine, request);
  }
  EXPECT_EQ(stream.finish()[0].finished.size(), 1U);
  EXPECT_EQ(stream.queue.use_count(), 1);
}

TEST(Engine, UsesNoCpuWhenIdle) {
  const auto engine = start_engine();
  submit(*engine, request_of_length(2, 2)).finish();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double cpu_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_seconds, 0.05);
}

TEST(Engine, CountsWhatItDoesNotHaveToDo) {
  const auto engine = start_engine();
  const EngineRequest request = request_of_length(6, 10);  // a block of 4 and a part
  submit(*engine, request).finish();
  submit(*engine, request).finish();
  engine->shutdown(ShutdownMode::kDrain);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_prefix_queries, 12);
  EXPECT_GT(stats.num_prefix_hits, 0);
  EXPECT_EQ(stats.num_block_copies, 1);
  EXPECT_GT(stats.num_blocks_cached, 0);
  EXPECT_EQ(stats.num_blocks_free + stats.num_blocks_cached, 64);
}

TEST(Engine, CountsWhatItDoes) {
  const auto engine = start_engine();
  submit(*engine, request_of_length(6, 10)).finish();
  EngineRequest other = request_of_length(6, 10);
  other.cache_salt = "shares nothing";
  submit(*engine, other).finish();  // the first one's last step is counted now
  const EngineStats stats = engine->stats();
  EXPECT_GE(stats.num_steps, 10);
  EXPECT_GE(stats.num_tokens_computed, 15);
  EXPECT_EQ(stats.num_prompt_tokens, 12);
  EXPECT_GE(stats.num_output_tokens, 10);
  EXPECT_EQ(stats.step_sizes.num_tokens, stats.num_tokens_computed);
  // Two prompts of six tokens; all other steps have one token.
  EXPECT_EQ(stats.step_sizes.num_steps[1], 2);
  EXPECT_EQ(stats.step_sizes.num_steps[0], stats.num_steps - 2);
  EXPECT_EQ(stats.num_blocks, 64);
  EXPECT_EQ(stats.num_live_seqs, 0);
}

TEST(Engine, ServesManyThreadsAtOnce) {
  constexpr int kNumThreads = 4;
  constexpr int kNumRequests = 60;
  const auto engine = start_engine({.max_num_seqs = 8, .max_num_live_seqs = 100, .n_max = 4});
  std::atomic<int> num_complete{0};
  const auto client = [&](uint64_t key) {
    Rng rng(key);
    for (int i = 0; i < kNumRequests; ++i) {
      EngineRequest request =
          request_of_length(1 + rng.below(20), static_cast<int32_t>(1 + rng.below(30)));
      request.sampling.n = static_cast<int32_t>(1 + rng.below(3));
      request.sampling.seed = rng.next();
      Stream stream = submit(*engine, request);
      const bool is_cancelled = rng.below(3) == 0;
      if (is_cancelled) engine->cancel(stream.id);
      (void)engine->stats();
      const std::vector<SequenceRecord> records = stream.finish(request.sampling.n);
      for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
        const SequenceRecord& record = records[static_cast<size_t>(choice)];
        ASSERT_EQ(record.finished.size(), 1U);
        if (record.finished[0].reason == FinishReason::kCancelled) {
          EXPECT_TRUE(is_cancelled);
          continue;
        }
        const Request alone{
            .prompt = request.prompt,
            .sampling = request.sampling,
            .seed = *request.sampling.seed,
        };
        EXPECT_EQ(
            record.tokens,
            run_alone(alone, choice, engine->scheduler_config(), {.vocab_size = kVocabSize}).tokens
        );
        num_complete.fetch_add(1);
      }
    }
  };
  {
    std::vector<std::jthread> clients;
    for (uint64_t key = 0; key < kNumThreads; ++key) clients.emplace_back(client, key);
  }
  EXPECT_GT(num_complete.load(), kNumThreads * kNumRequests / 2);
  engine->shutdown(ShutdownMode::kDrain);
  EXPECT_EQ(engine->stats().num_blocks_free + engine->stats().num_blocks_cached, 64);
  EXPECT_EQ(engine->stats().num_live_seqs, 0);
}

}  // namespace
}  // namespace millrace
