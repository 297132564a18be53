// What stands between an engine's many callers and its one thread: checks requests, counts what is
// live, refuses what is too much (Admission), and passes commands on in order. Part of an engine,
// which owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "engine/admission.h"
#include "engine/engine.h"
#include "engine/tenants.h"
#include "engine/throughput_meter.h"
#include "sched/request.h"
#include "sched/scheduler_config.h"

namespace millrace {

// Refuses what an engine of these limits can never run; the error's `where` is the field. Pure.
Result<void> check_request(
    const EngineRequest& request, const SchedulerConfig& config, const EngineLimits& limits
);

// Refuses limits that nothing could pass; the error's `where` is the field. Pure.
Result<void> check_admission(const AdmissionLimits& limits);

class Intake {
 public:
  struct Submission {
    Request request;
    std::shared_ptr<EventSink> sink;
    Arrivals arrival;
  };
  struct Cancellation {
    RequestId request;
    std::optional<int32_t> choice = std::nullopt;  // none: all of them
  };
  using Command = std::variant<Submission, Cancellation, ShutdownMode>;

  // `seed`: requests without a seed get one that follows from this.
  Intake(SchedulerConfig config, EngineLimits limits, uint64_t seed);

  const SchedulerConfig& scheduler_config() const { return config_; }
  const EngineLimits& limits() const { return limits_; }

  // --- Any thread ---

  // As Engine states them.
  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink);
  void cancel(RequestId id);
  void cancel(RequestId id, int32_t choice);

  // Requests from now on share prefixes among themselves only.
  void reset_prefix_cache();

  // Refuses requests from now on and passes the mode on, if it is stronger than the last.
  void shut_down(ShutdownMode mode);

  // Fills in what callers do to an engine, and its speed: num_live_seqs, num_queued_seqs,
  // num_refused, the tokens per second and working_since. The rest is the engine's.
  void fill(EngineStats& stats) const;

  // --- The engine thread ---

  std::optional<Command> pop() { return taken(commands_.pop()); }
  std::optional<Command> pop_until(TimePoint deadline) {
    return taken(commands_.pop_until(deadline));
  }
  std::optional<Command> try_pop() { return taken(commands_.try_pop()); }

  // Call it before the sink hears of the end: the place of the sequence is free for another then.
  void account(const FinishedEvent& finished);

  // A step has ended, and with it `stats` tell of all commands that were popped before.
  void note_step(const EngineStats& stats);

  // Up to `when` the engine is not stuck: nothing is due before.
  void note_progress(TimePoint when);

 private:
  struct LiveRequest {
    bool is_cancelled = false;           // as a whole
    std::vector<bool> choice_cancelled;  // [n], or over
    TenantId tenant;
    ResultBytes result_bytes;
  };

  std::optional<Command> taken(std::optional<Command> command);

  // With mutex_ held. Whoever calls send() wakes the engine thread once it is not.
  Result<RequestId> accept(EngineRequest& request, std::shared_ptr<EventSink> sink);
  std::optional<Error> find_refusal(
      const EngineRequest& request, const Claim& claim, TenantId tenant, TimePoint now
  );
  Hash128 prefix_root(RequestId id, const std::string& cache_salt) const;
  void send(Command command);

  const SchedulerConfig config_;
  const EngineLimits limits_;
  const uint64_t seed_;

  // Drained before each step. In between, a place among the live sequences can see one of its
  // sequence cancelled twice (choice and request), end, and be taken by another that is submitted
  // and cancelled twice: five commands; and one shutdown of each mode. So there is always room.
  BoundedQueue<Command> commands_;
  Arrivals taken_;  // with the commands since the last step; the engine thread's

  mutable std::mutex mutex_;  // guards all below; never held while a sink is called
  std::unordered_map<RequestId, LiveRequest> live_;
  Admission admission_;
  Tenants tenants_;
  ThroughputMeter throughput_;
  RefusalCounts num_refused_ = {};
  uint64_t num_accepted_ = 0;
  uint64_t prefix_epoch_ = 0;             // how often the prefix cache was reset
  std::optional<ShutdownMode> shutdown_;  // the strongest asked for
  TimePoint last_progress_;               // as noted, or the first request after idleness
};

}  // namespace millrace
