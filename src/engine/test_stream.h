// For tests: a request under way, and what comes of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/event_queue.h"
#include "engine/reference_run.h"

namespace millrace {

struct Stream {
  RequestId id;
  std::shared_ptr<EventQueue> queue;  // none: it was refused, and the test has failed

  // Waits for the end of every choice.
  std::vector<SequenceRecord> finish(int32_t n = 1) {
    std::vector<SequenceRecord> records(static_cast<size_t>(n));
    if (queue == nullptr) return records;
    for (int32_t num_unfinished = n; num_unfinished > 0;) {
      const EngineEvent event = queue->next();
      EXPECT_EQ(request_of(event), id);
      records[static_cast<size_t>(choice_of(event))].append(event);
      if (const auto* end = std::get_if<FinishedEvent>(&event)) {
        EXPECT_EQ(end->num_choices_unfinished, --num_unfinished);
      }
    }
    return records;
  }
};

inline Stream submit(Engine& engine, EngineRequest request) {
  auto queue = std::make_shared<EventQueue>(request);
  Result<RequestId> id = engine.submit(std::move(request), queue);
  EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
  if (!id.ok()) return {};
  return {*id, std::move(queue)};
}

}  // namespace millrace
