// A few threads for text work that is too long for an I/O thread: rendering chats, tokenizing large
// prompts, wording large answers.
//
// Megabytes of text take seconds to tokenize. Tasks of large bodies have a thread of their own, one
// after another, so that all others find theirs as if there were none.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/byte_budget.h"

namespace millrace {

struct TextWorkersOptions {
  size_t num_threads = 1;             // at least 1; one more for large bodies
  size_t num_tasks_waiting_max = 16;  // at least 1; of large bodies as many again
  // Of the bodies of the tasks that wait. One alone may be larger.
  size_t num_bytes_waiting_max = size_t{1} << 30;
  size_t large_body_bytes = size_t{256} << 10;  // a body of more bytes is large
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
  // throws is over; the thread goes on. `num_bytes`: of the body that it keeps, or is to write.
  [[nodiscard]] bool try_post(Task task, size_t num_bytes = 0);

  // Runs what waits, and joins the threads. Idempotent; not from a task.
  void stop();

 private:
  struct Waiting {
    Task task;
    BytesHeld bytes;  // until it runs
  };
  using Queue = BoundedQueue<Waiting>;

  static void run(Queue& queue);

  const TextWorkersOptions options_;
  ByteBudget bytes_waiting_;
  Queue tasks_;
  Queue large_tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace
