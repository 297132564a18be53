#include "base/thread_pool.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/prefetch.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Looks at the value without giving up the core: about 2.5 us (25 ns a look on Zen 4), more than
// the threads of one phase usually end apart. An empty phase of two threads takes 0.2 us
// (thread_pool_bench.cpp), and much more where both must share a core.
constexpr int kSpins = 100;

// Then goes on looking, but lets others run in between: longer than the phases of a step lie apart,
// because to sleep and be woken takes 13 to 30 us, of which a step with 200 phases would not want
// one each. Short enough that a pool without work uses no time worth mentioning.
constexpr std::chrono::microseconds kYielding{500};

// Of its part of what is read soon a thread asks for so much: what it reads in 17 us at 15 GB/s,
// and an eighth to a quarter of a server processor's second-level cache.
constexpr size_t kAskedBytes = size_t{256} << 10;
// Between two looks.
constexpr size_t kAskedAtOnce = 4 * kCacheLineBytes;

// Returns once `value` differs from `old`.
void wait_while_equal(const std::atomic<uint32_t>& value, uint32_t old, Asking& asking) {
  for (; !asking.is_done(); asking.ask_some()) {
    if (value.load(std::memory_order_acquire) != old) return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  for (const Clock::time_point end = Clock::now() + kYielding; Clock::now() < end;) {
    if (value.load(std::memory_order_acquire) != old) return;
    ::sched_yield();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

struct Part {
  size_t begin;
  size_t end;
};

Part part_of(size_t size, size_t index, size_t num_parts) {
  return {size * index / num_parts, size * (index + 1) / num_parts};
}

// Most of [begin, end), so that there are few pieces, but not what a thread may be late by; nothing
// below `piece_min`.
size_t piece_end(size_t begin, size_t end, size_t piece_min) {
  const size_t size = end - begin;
  return size < 2 * piece_min ? end : begin + size - std::max(piece_min, size / 4);
}

}  // namespace

void Asking::update(const ReadSoon& read, uint32_t version, size_t thread, size_t num_threads) {
  if (version == version_) return;
  version_ = version;
  const Part part = part_of(read.num_units, thread, num_threads);
  next_ = static_cast<const char*>(read.data) + part.begin * read.unit_bytes;
  end_ = next_ + std::min((part.end - part.begin) * read.unit_bytes, kAskedBytes);
}

void Asking::ask_some() {
  prefetch(next_, kAskedAtOnce);
  next_ += kAskedAtOnce;
}

ThreadPool::ThreadPool(size_t num_threads) : rests_(num_threads) {
  CHECK(num_threads >= 1, "a thread pool counts its caller");
  workers_.reserve(num_threads - 1);
  for (size_t index = 1; index < num_threads; ++index) {
    workers_.emplace_back([this, index] { work(index); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
}

void ThreadPool::parallel_for(size_t size, RangeFunction function) {
  if (size == 0) return;
  if (workers_.empty() || size == 1) return function(0, size);

  function_ = &function;
  size_ = size;
  num_running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();

  asking_.update(read_soon_, read_soon_version_, 0, num_threads());
  const Part part = part_of(size, 0, num_threads());
  if (part.begin < part.end) function(part.begin, part.end);
  for (uint32_t running = num_running_.load(std::memory_order_acquire); running != 0;
       running = num_running_.load(std::memory_order_acquire)) {
    wait_while_equal(num_running_, running, asking_);
  }
}

void ThreadPool::parallel_pieces(size_t size, size_t piece_min, PieceFunction function) {
  if (size == 0) return;
  if (workers_.empty()) return function(0, 0, size);
  for (size_t thread = 0; thread < num_threads(); ++thread) {
    const Part part = part_of(size, thread, num_threads());
    rests_[thread].begin.store(part.begin, std::memory_order_relaxed);
    rests_[thread].end = part.end;
  }
  parallel_for(num_threads(), [&](size_t first, size_t last) {
    for (size_t thread = first; thread < last; ++thread) take_pieces(thread, piece_min, function);
  });
}

void ThreadPool::read_soon(const ReadSoon& read) {
  read_soon_ = read;
  ++read_soon_version_;
}

// Which thread computes a piece is nobody's business: the phase's end publishes all of them.
void ThreadPool::take_pieces(size_t thread, size_t piece_min, PieceFunction function) {
  for (size_t i = 0; i < num_threads(); ++i) {
    Rest& rest = rests_[(thread + i) % num_threads()];
    size_t begin = rest.begin.load(std::memory_order_relaxed);
    while (begin < rest.end) {
      const size_t end = piece_end(begin, rest.end, piece_min);
      if (!rest.begin.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      function(thread, begin, end);
      begin = rest.begin.load(std::memory_order_relaxed);
    }
  }
}

void ThreadPool::work(size_t index) {
  uint32_t phase = 0;
  Asking asking;
  for (;;) {
    wait_while_equal(phase_, phase, asking);
    ++phase;
    if (stopping_) return;
    asking.update(read_soon_, read_soon_version_, index, num_threads());
    const Part part = part_of(size_, index, num_threads());
    if (part.begin < part.end) (*function_)(part.begin, part.end);
    if (num_running_.fetch_sub(1, std::memory_order_release) == 1) num_running_.notify_one();
  }
}

}  // namespace millrace
