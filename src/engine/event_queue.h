// A sink to wait on: for callers who would rather take events than be called.
#pragma once

#include "base/bounded_queue.h"
#include "engine/engine.h"

namespace millrace {

class EventQueue final : public EventSink {
 public:
  // Room for every event that `request` can cause, so that the engine never finds it full.
  explicit EventQueue(const EngineRequest& request);

  // Sleeps until there is an event. REQUIRES: the last FinishedEvent has not been taken yet.
  EngineEvent next();

  void on_event(EngineEvent event) override;

 private:
  BoundedQueue<EngineEvent> events_;
};

}  // namespace millrace
