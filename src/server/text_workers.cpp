#include "server/text_workers.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace millrace {

TextWorkers::TextWorkers(size_t num_threads, size_t num_waiting_max) : tasks_(num_waiting_max) {
  threads_.reserve(num_threads);
  for (size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
}

TextWorkers::~TextWorkers() {
  stop();
}

bool TextWorkers::try_post(Task task) {
  return tasks_.try_push(std::move(task)) == PushResult::kPushed;
}

void TextWorkers::stop() {
  tasks_.close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void TextWorkers::run() {
  pthread_setname_np(pthread_self(), "text");
  while (std::optional<Task> task = tasks_.pop()) {
    try {
      (*task)();
    } catch (const std::exception&) {
      // Only memory that ran out gets here. What the task owned is gone with it: an exchange that
      // was not answered tells its client so.
    }
  }
}

}  // namespace millrace
