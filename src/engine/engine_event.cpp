#include "engine/engine_event.h"

namespace millrace {

RequestId request_of(const EngineEvent& event) {
  return std::visit([](const auto& e) { return e.request; }, event);
}

}  // namespace millrace
