#pragma once
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "http/counters.h"
#include "sched/finished_event.h"
namespace millrace {
class ServerMetrics {
 public:
  std::string render(const EngineStats&, const EngineLimits&, const http::CountersSnapshot&) const {
    return "# none\n";
  }
  explicit ServerMetrics(std::string) {}
  void observe_first_token(Duration) {}
  void observe_inter_token(Duration) {}
  void observe_finished(FinishReason, const SequenceTimings&, const SamplingParams&) {}
};
}  // namespace millrace
