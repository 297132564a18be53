// A few threads for text work that is too long for an I/O thread: rendering chats, tokenizing large
// prompts, wording large answers.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace millrace {

struct TextWorkersOptions {
  size_t num_threads = 1;             // at least 1
  size_t num_tasks_waiting_max = 16;  // at least 1
  // Of the bodies of the tasks that wait. One alone may be larger.
  size_t num_bytes_waiting_max = size_t{1} << 30;
};

// Thread-safe.
class TextWorkers {
 public:
  using Task = std::function<void()>;

  explicit TextWorkers(const TextWorkersOptions& options);
  ~TextWorkers();  // as stop()
  TextWorkers(const TextWorkers&) = delete;
  TextWorkers& operator=(const TextWorkers&) = delete;

  // False: too much waits already, or the workers are stopped; the task was dropped. A task that
  // throws is over; the thread goes on. `num_bytes`: of the body that it keeps.
  [[nodiscard]] bool try_post(Task task, size_t num_bytes = 0);

  // Runs what waits, and joins the threads. Idempotent; not from a task.
  void stop();

 private:
  struct Waiting {
    Task task;
    size_t num_bytes = 0;
  };
  void run();

  const size_t num_bytes_waiting_max_;
  std::atomic<size_t> num_bytes_waiting_ = 0;
  BoundedQueue<Waiting> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace
