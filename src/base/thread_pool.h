// The compute threads: one fixed team that runs a function over parts of a range, phase by phase.
// Owned by the program's main or by the engine; parallel_for is called by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {

// A borrowed callable `void(Numbers...)`: two words, no allocation.
template <class... Numbers>
class BorrowedFunction {
 public:
  template <class F>
  BorrowedFunction(const F& function)
      : object_(&function), call_([](const void* object, Numbers... numbers) {
          (*static_cast<const F*>(object))(numbers...);
        }) {}
  void operator()(Numbers... numbers) const { call_(object_, numbers...); }

 private:
  const void* object_;
  void (*call_)(const void*, Numbers...);
};
using RangeFunction = BorrowedFunction<size_t, size_t>;          // begin, end
using PieceFunction = BorrowedFunction<size_t, size_t, size_t>;  // thread, begin, end

// What the threads read soon: thread t of n from unit num_units * t / n on, which is how
// parallel_pieces() deals that many.
struct ReadSoon {
  const void* data = nullptr;
  size_t num_units = 0;
  size_t unit_bytes = 0;
};

// What a thread has not yet asked memory for, of the beginning of its part.
class Asking {
 public:
  // At the begin of a phase. `version` is another one where `read` is; 0: none yet.
  void update(const ReadSoon& read, uint32_t version, size_t thread, size_t num_threads);
  bool is_done() const { return next_ >= end_; }
  const char* next() const { return next_; }
  void ask_some();

 private:
  uint32_t version_ = 0;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
};

class ThreadPool {
 public:
  // `num_threads` counts the calling thread, which takes part: 1 starts no thread at all.
  explicit ThreadPool(size_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const { return workers_.size() + 1; }

  // Splits [0, size) into one contiguous part per thread, the same for every call of that size, so
  // that a core always reads its own share of the weights. Returns when all parts are done.
  // `function` must not throw and must not call parallel_for.
  void parallel_for(size_t size, RangeFunction function);

  // The same for work that equal parts of do not end together: cores get unequal shares of the
  // memory's bandwidth, and others run on them. Each thread takes its own part in pieces, three
  // quarters of what is left and at least `piece_min` at a time, and in the end pieces of the
  // others' parts.
  void parallel_pieces(size_t size, size_t piece_min, PieceFunction function);

  // From the next phase on a thread that waits asks memory for the beginning of its part: what
  // reads weights is as fast as memory, which else has nothing to do where threads wait for each
  // other. Changes no result; any address will do.
  void read_soon(const ReadSoon& read);

 private:
  // What nobody has taken of a thread's part.
  struct alignas(64) Rest {
    std::atomic<size_t> begin;
    size_t end;
  };

  void work(size_t index);
  void take_pieces(size_t thread, size_t piece_min, PieceFunction function);

  // Guarded by the release store of phase_ and the acquire loads of the workers.
  const RangeFunction* function_ = nullptr;
  size_t size_ = 0;
  ReadSoon read_soon_;
  uint32_t read_soon_version_ = 0;
  bool stopping_ = false;

  alignas(64) std::atomic<uint32_t> phase_{0};
  alignas(64) std::atomic<uint32_t> num_running_{0};

  std::vector<Rest> rests_;  // [num_threads], of parallel_pieces

  Asking asking_;  // the caller's

  std::vector<std::jthread> workers_;  // last: joined before the fields above go
};

}  // namespace millrace
