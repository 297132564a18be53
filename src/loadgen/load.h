// Puts a load on a server and records what each request did. The heart of `millrace bench`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "loadgen/target.h"
#include "results/point_record.h"
#include "workload/dataset.h"

namespace millrace::bench {

// What progress bars show; a copy, some times a second, on a thread of the load's own.
struct LoadProgress {
  Nanos elapsed{0};
  int64_t num_sent = 0, num_completed = 0, num_failed = 0, num_in_flight = 0;
  int64_t num_output_tokens = 0;
  std::optional<int64_t> num_planned;
  std::optional<double> ttft_p50_ms, ttft_p99_ms, itl_p50_ms, itl_p99_ms;  // of the last seconds
};

struct LoadOptions {
  LoadPlan load;
  uint64_t seed = 0;  // of arrivals
  // Before the clock, at most max_concurrency at once, first turns alone. They take the sessions
  // from first_session on, and the measured ones follow; where the dataset has too few for both,
  // all warm-ups repeat its first one.
  int64_t num_warmups = 0;
  int64_t first_session = 0;  // of the dataset: a point does not repeat another's prompts
  // At most the dataset's size; none: all that it has, without an end until max_duration.
  std::optional<int64_t> num_sessions;
  std::optional<Nanos> max_duration;  // nothing new is sent after it
  // What is under way after max_duration, or when stopped, may still finish for so long; then, or
  // with `cut`, it is cut, and its record is kUnfinished. A stop after max_duration cuts as well.
  Nanos grace{0};
  std::stop_token cut;
  int64_t max_errors = -1;  // the point ends after more than so many; -1: never
  // guidellm's: closed loop's slots start over so many seconds; the published grid's stagger is
  // between slots.
  double rampup_seconds = 0.0;
  int32_t num_threads = 1;
  bool keeps_chunks = true;
  bool keeps_texts = false;
  // Asked now and then, on a thread of the load's own: true ends the point as kPrecise.
  std::function<bool(const std::vector<RequestRecord>& finished)> is_precise;
  std::function<void(const LoadProgress&)> on_progress;
  // Called by run_load() where it was stopped and waits for so many that are under way.
  std::function<void(int64_t num_awaited)> on_stopping;
};

struct LoadResult {
  int64_t started_unix_ns = 0;
  Nanos first_dispatch{0};
  Nanos finished{0};  // as PointRecord's
  StopReason stop_reason = StopReason::kAllDone;
  // By index: warm-ups first, then the measured, a session's turns one after the other. `session`
  // is the dataset's number. A request that was due and had no turn is kUnfinished with sent ==
  // ended, but for kBurst with a limit, whose schedule is only "as soon as there is a place".
  std::vector<RequestRecord> requests;
  ClientUse client;
  // What ended the point early: the dataset could not give a session.
  std::optional<Error> error;
};

// What the dataset has from `first_session` on; none: no end, or nothing.
std::optional<int64_t> num_sessions_from(const Dataset& dataset, int64_t first_session);

// Closed loop: a slot keeps its session to the end, think times too. Open loop: each turn needs a
// place of its own; those who wait are served in the schedule's order.
//
// Where usage deltas are wanted, one request for one token is sent before all others, to see
// whether the server takes the field; it is no record.
//
// Blocks until all is done, sends from threads of its own. Bodies are built and connections opened
// before the clock, as far as is known by then. Failing requests are records, not errors: errors
// are a dataset that cannot give a session and a machine that cannot start threads. A dead server
// ends the point early, as kServerGone, with what was recorded.
Result<LoadResult> run_load(
    const Target& target, const Dataset& dataset, const LoadOptions& options, std::stop_token stop
);

}  // namespace millrace::bench
