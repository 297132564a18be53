// A few threads for text work that is too long for an I/O thread: rendering chats, tokenizing large
// prompts, wording large answers.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace millrace {

// Thread-safe.
class TextWorkers {
 public:
  using Task = std::function<void()>;

  // REQUIRES: both above 0.
  TextWorkers(size_t num_threads, size_t num_waiting_max);
  ~TextWorkers();  // as stop()
  TextWorkers(const TextWorkers&) = delete;
  TextWorkers& operator=(const TextWorkers&) = delete;

  // False: too much waits already, or the workers are stopped; the task was dropped. A task that
  // throws is over; the thread goes on.
  [[nodiscard]] bool try_post(Task task);

  // Runs what waits, and joins the threads. Idempotent; not from a task.
  void stop();

 private:
  void run();

  BoundedQueue<Task> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace
