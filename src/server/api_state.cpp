#include "server/api_state.h"

#include <utility>

namespace millrace {

void ApiState::serve(std::unique_ptr<Serving> serving) {
  owned_ = std::move(serving);
  watchdog_ = std::make_unique<EngineWatchdog>(EngineWatchdog::Options{
      .stall_timeout = stall_timeout_,
      .read_stats = [engine = owned_->model.engine.get()] { return engine->stats(); },
      .on_news =
          [&log = log_](const StallNews& news) {
            if (news.is_over) {
              log.warning(message_of(news));
            } else {
              log.error(message_of(news));
            }
          },
  });
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
  std::string text = process_metrics_.render(counters);
  if (serving != nullptr) text += serving->metrics.render(serving->model.engine->stats());
  return text;
}

}  // namespace millrace
