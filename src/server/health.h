// Whether the server lives and is ready: what /livez, /readyz and /health answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "engine/engine.h"

namespace millrace {

enum class ServerPhase {
  kStarting,  // the model is loading
  kServing,
  kDraining,  // what was accepted is finished, nothing more is accepted
};

struct Health {
  bool is_live = true;                  // false: only a restart helps
  bool is_ready = true;                 // false: send requests elsewhere
  std::string_view reason = "ok";       // or "loading", "draining", "stalled"; static storage
  std::optional<Duration> stalled_for;  // with "stalled"
};

// Since when the engine is stuck, if it has had work for longer than `stall_timeout` without
// finishing a step. Pure.
std::optional<TimePoint> find_stall(
    const EngineStats& stats, TimePoint now, Duration stall_timeout
);

// A stalled engine is neither live nor ready, whatever the phase; a server that loads or drains
// lives. Pure.
Health judge_health(
    ServerPhase phase, const EngineStats& stats, TimePoint now, Duration stall_timeout
);

// {"status":"ok"}, {"status":"stalled","stalled_s":61.5}.
std::string to_json(const Health& health);

}  // namespace millrace
