#include "server/api_state.h"

#include <utility>

namespace millrace {

void ApiState::serve(std::unique_ptr<Serving> serving) {
  owned_ = std::move(serving);
  serving_.store(owned_.get(), std::memory_order_release);
  phase_ = ServerPhase::kServing;
}

Health ApiState::health() const {
  const Serving* serving = this->serving();
  const EngineStats stats = serving != nullptr ? serving->model.engine->stats() : EngineStats();
  return judge_health(phase(), stats, Clock::now(), stall_timeout_);
}

std::string ApiState::metrics_text(const http::CountersSnapshot& counters) const {
  const Serving* serving = this->serving();
  if (serving == nullptr) return {};
  const Engine& engine = *serving->model.engine;
  return serving->metrics.render(engine.stats(), engine.limits(), counters);
}

}  // namespace millrace
