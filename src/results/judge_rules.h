// The single reasons that judge() looks for. Each adds at most one finding of its code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "results/point_record.h"
#include "results/point_summary.h"
#include "results/verdict.h"

namespace millrace::bench {

// What they look at, and where findings go.
struct Evidence {
  const PointRecord& record;
  const PointSummary& ours;
  std::vector<const RequestRecord*> measured;   // in the order of the plan
  std::vector<const RequestRecord*> completed;  // of those
  Verdict& verdict;

  void add(Trust trust, std::string_view code, std::string message) const {
    verdict.findings.push_back({.trust = trust, .code = code, .message = std::move(message)});
  }
};

// Was the work done that the plan says?
void judge_completeness(const Evidence& evidence);   // "nothing_completed", "incomplete"
void judge_stop(const Evidence& evidence);           // "stopped_early"
void judge_failures(const Evidence& evidence);       // "failures"
void judge_unfinished(const Evidence& evidence);     // "unfinished"
void judge_output_length(const Evidence& evidence);  // "output_length"
void judge_prompt_length(const Evidence& evidence);  // "prompt_length"
void judge_prefix_hits(const Evidence& evidence);    // "prefix_hits"
void judge_streaming(const Evidence& evidence);      // "not_streamed"
void judge_token_source(const Evidence& evidence);   // "token_source"
void judge_sample_size(const Evidence& evidence);    // "few_samples", "short_run"

// Was it done at the load that the plan says, and is it the server that was measured?
void judge_rate(const Evidence& evidence);          // "rate"
void judge_client_use(const Evidence& evidence);    // "client_saturated", "client_limit"
void judge_schedule_lag(const Evidence& evidence);  // "schedule_lag"
void judge_client_queue(const Evidence& evidence);  // "client_queue"
void judge_client_floor(const Evidence& evidence);  // "client_floor"
void judge_stationarity(const Evidence& evidence);  // "not_stationary"
void judge_leftovers(const Evidence& evidence);     // "leftovers"

}  // namespace millrace::bench
