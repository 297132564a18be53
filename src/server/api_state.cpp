#include "server/api_state.h"

#include <utility>

namespace millrace {

void ApiState::serve(std::unique_ptr<Serving> serving) {
  owned_ = std::move(serving);
  serving_.store(owned_.get(), std::memory_order_release);
  phase_ = ServerPhase::kServing;
}

}  // namespace millrace
namespace millrace {
Health ApiState::health() const { const Serving* s = serving(); return judge_health(phase_, s ? s->model.engine->stats() : EngineStats(), Clock::now(), stall_timeout_); }
}
