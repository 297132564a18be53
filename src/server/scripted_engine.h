// For tests: an engine that does what the test says, when it says so.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "http/test_peer.h"

namespace millrace {

// Events are delivered on the thread of the test, one after another, as an engine thread would.
class ScriptedEngine final : public Engine {
 public:
  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink) override {
    if (on_submit) on_submit();
    const std::lock_guard lock(mutex_);
    if (refusal && requests_.size() >= num_accepted_before_refusal) return *refusal;
    const RequestId id{requests_.size()};
    requests_.push_back(std::move(request));
    sinks_.push_back(std::move(sink));
    arrived_.notify_all();
    return id;
  }
  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    cancelled_.emplace_back(id, std::nullopt);
    arrived_.notify_all();
  }
  void cancel(RequestId id, int32_t choice) override {
    const std::lock_guard lock(mutex_);
    cancelled_.emplace_back(id, choice);
    arrived_.notify_all();
  }
  void reset_prefix_cache() override {}
  EngineStats stats() const override { return {}; }
  const EngineLimits& limits() const override { return limits_; }
  void shutdown(ShutdownMode) override {}

  // The next request that was submitted and not taken yet, by its number; waits for it.
  size_t take() {
    std::unique_lock lock(mutex_);
    const bool came =
        arrived_.wait_for(lock, http::kPatience, [&] { return requests_.size() > num_taken_; });
    EXPECT_TRUE(came) << "no request came";
    return num_taken_++;
  }
  EngineRequest request(size_t number) {
    const std::lock_guard lock(mutex_);
    return requests_.at(number);
  }

  void token(size_t number, int32_t choice, TokenId id, bool is_stop_token = false) {
    deliver(
        number,
        TokenEvent{
            .request = RequestId{number},
            .choice = choice,
            .token = {.id = id, .logprobs = {{id, -0.5F}}},
            .is_stop_token = is_stop_token,
            .when = Clock::now()}
    );
  }
  void text(size_t number, int32_t choice, std::string_view text) {
    for (const char byte : text) token(number, choice, static_cast<unsigned char>(byte));
  }
  void finish(size_t number, int32_t choice, FinishReason reason, FinishedEvent event = {}) {
    event.request = RequestId{number};
    event.choice = choice;
    event.reason = reason;
    event.when = Clock::now();
    deliver(number, std::move(event));
  }
  void deliver(size_t number, EngineEvent event) {
    std::shared_ptr<EventSink> sink;
    {
      const std::lock_guard lock(mutex_);
      sink = sinks_.at(number);
    }
    sink->on_event(std::move(event));
    if (on_step_end) on_step_end();
  }
  // As after the last event of a request.
  void release(size_t number) {
    const std::lock_guard lock(mutex_);
    sinks_.at(number).reset();
  }

  // Waits until the request, or its choice, is cancelled.
  bool is_cancelled(size_t number, std::optional<int32_t> choice = std::nullopt) {
    const std::pair wanted(RequestId{number}, choice);
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, http::kPatience, [&] {
      return std::find(cancelled_.begin(), cancelled_.end(), wanted) != cancelled_.end();
    });
  }

  std::function<void()> on_step_end;
  std::function<void()> on_submit;
  size_t num_accepted_before_refusal = 0;
  std::optional<Error> refusal;  // of what is submitted from now on

 private:
  const EngineLimits limits_{
      .vocab_size = 256,
      .num_sequence_tokens_max = 64,
      .n_max = 8,
      .logprobs_max = 5,
      .max_num_seqs = 8,
      .max_num_live_seqs = 8,
      .block_size = 16,
      .num_blocks = 16,
  };
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<EngineRequest> requests_;
  std::vector<std::shared_ptr<EventSink>> sinks_;
  std::vector<std::pair<RequestId, std::optional<int32_t>>> cancelled_;
  size_t num_taken_ = 0;
};

}  // namespace millrace
