#include "engine/event_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

size_t num_events_max(const EngineRequest& request) {
  const auto num_tokens = static_cast<size_t>(std::max(0, request.sampling.max_tokens));
  const auto num_choices = static_cast<size_t>(std::max(0, request.sampling.n));
  return num_choices * (num_tokens + 1) + request.prompt.size() + 1;
}

}  // namespace

EventQueue::EventQueue(const EngineRequest& request) : events_(num_events_max(request)) {}

EngineEvent EventQueue::next() {
  std::optional<EngineEvent> event = events_.pop();
  CHECK(event.has_value(), "an event queue is never closed");
  return std::move(*event);
}

void EventQueue::on_event(EngineEvent event) {
  CHECK(
      events_.try_push(std::move(event)) == PushResult::kPushed, "more events than a request has"
  );
}

}  // namespace millrace
