#include "server/health.h"

#include <fmt/format.h>

namespace millrace {
namespace {

std::string_view reason_of(ServerPhase phase) {
  switch (phase) {
    case ServerPhase::kStarting:
      return "loading";
    case ServerPhase::kServing:
      return "ok";
    case ServerPhase::kDraining:
      return "draining";
  }
  return "ok";
}

}  // namespace

std::optional<TimePoint> find_stall(
    const EngineStats& stats, TimePoint now, Duration stall_timeout
) {
  if (!stats.working_since || now - *stats.working_since <= stall_timeout) return std::nullopt;
  return stats.working_since;
}

Health judge_health(
    ServerPhase phase, const EngineStats& stats, TimePoint now, Duration stall_timeout
) {
  if (const std::optional<TimePoint> since = find_stall(stats, now, stall_timeout)) {
    return {.is_live = false, .is_ready = false, .reason = "stalled", .stalled_for = now - *since};
  }
  return {
      .is_live = true,
      .is_ready = phase == ServerPhase::kServing,
      .reason = reason_of(phase),
      .stalled_for = std::nullopt,
  };
}

std::string to_json(const Health& health) {
  if (!health.stalled_for) return fmt::format(R"({{"status":"{}"}})", health.reason);
  return fmt::format(
      R"({{"status":"{}","stalled_s":{:.1f}}})", health.reason, to_seconds(*health.stalled_for)
  );
}

}  // namespace millrace
