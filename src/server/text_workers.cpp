#include "server/text_workers.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace millrace {

TextWorkers::TextWorkers(const TextWorkersOptions& options)
    : num_bytes_waiting_max_(options.num_bytes_waiting_max), tasks_(options.num_tasks_waiting_max) {
  threads_.reserve(options.num_threads);
  for (size_t i = 0; i < options.num_threads; ++i) threads_.emplace_back([this] { run(); });
}

TextWorkers::~TextWorkers() {
  stop();
}

bool TextWorkers::try_post(Task task, size_t num_bytes) {
  const size_t num_bytes_before = num_bytes_waiting_.fetch_add(num_bytes);
  const bool has_room = num_bytes == 0 || num_bytes_before == 0 ||
                        num_bytes_before + num_bytes <= num_bytes_waiting_max_;
  if (has_room && tasks_.try_push({std::move(task), num_bytes}) == PushResult::kPushed) return true;
  num_bytes_waiting_ -= num_bytes;
  return false;
}

void TextWorkers::stop() {
  tasks_.close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void TextWorkers::run() {
  pthread_setname_np(pthread_self(), "text");
  while (std::optional<Waiting> next = tasks_.pop()) {
    num_bytes_waiting_ -= next->num_bytes;
    try {
      next->task();
    } catch (const std::exception&) {
      // Only memory that ran out gets here. What the task owned is gone with it: an exchange that
      // was not answered tells its client so.
    }
  }
}

}  // namespace millrace
