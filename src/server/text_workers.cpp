#include "server/text_workers.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace millrace {

TextWorkers::TextWorkers(const TextWorkersOptions& options)
    : options_(options),
      bytes_waiting_(options.num_bytes_waiting_max),
      tasks_(options.num_tasks_waiting_max),
      large_tasks_(options.num_tasks_waiting_max) {
  threads_.reserve(options.num_threads + 1);
  for (size_t i = 0; i < options.num_threads; ++i) threads_.emplace_back([this] { run(tasks_); });
  threads_.emplace_back([this] { run(large_tasks_); });
}

TextWorkers::~TextWorkers() {
  stop();
}

bool TextWorkers::try_post(Task task, size_t num_bytes) {
  BytesHeld bytes(&bytes_waiting_);
  if (!bytes.grow_to(std::min(num_bytes, options_.num_bytes_waiting_max))) return false;
  Queue& queue = num_bytes > options_.large_body_bytes ? large_tasks_ : tasks_;
  return queue.try_push({std::move(task), std::move(bytes)}) == PushResult::kPushed;
}

void TextWorkers::stop() {
  tasks_.close();
  large_tasks_.close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void TextWorkers::run(Queue& queue) {
  pthread_setname_np(pthread_self(), "text");
  while (std::optional<Waiting> next = queue.pop()) {
    next->bytes.release();
    try {
      next->task();
    } catch (const std::exception&) {
      // Only memory that ran out gets here. What the task owned is gone with it: an exchange that
      // was not answered tells its client so.
    }
  }
}

}  // namespace millrace
