// Whether the server lives and is ready.
#pragma once
#include <string>

#include "base/clock.h"
#include "engine/engine.h"

namespace millrace {

enum class ServerPhase { kStarting, kServing, kDraining };
struct Health {
  bool is_live = true;
  bool is_ready = true;
};
inline Health judge_health(ServerPhase phase, const EngineStats&, TimePoint, Duration) {
  return {true, phase == ServerPhase::kServing};
}
inline std::string to_json(const Health&) {
  return "{}";
}

}  // namespace millrace
