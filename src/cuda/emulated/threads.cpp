#include "cuda/emulated/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "cuda/emulated/device/fiber.h"
#include "cuda/emulated/device/sanitizer.h"

namespace millrace::cuda::emulated {

Place place;

namespace {

// What stands in shared memory before a thread writes it: NaN as float and as bfloat16.
constexpr int kUnwritten = 0xFF;
// Bytes behind the shared memory that must stay as they were.
constexpr size_t kFenceBytes = 256;

std::string words(const Dim3& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

std::string words(const SourceLine& where) {
  return fmt::format("{}:{}", where.file, where.line);
}

bool are_same(const SourceLine& a, const SourceLine& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// A place that some threads have reached and that others must reach before anyone goes on.
struct Meeting {
  uint32_t num_arrived = 0;
  SourceLine where = {};
  LaneOperands operands = {};  // of a warp's
};

// Those that wait, in the order in which they run again.
struct Waiter {
  Fiber* fiber;
  Dim3 thread;
};

// Runs the threads of a block. One lives as long as the process: its fibers are used again.
class BlockRunner {
 public:
  void run(const LaunchShape& shape, const Dim3& block, const std::function<void()>& body);
  void meet_block(const SourceLine& where);
  void meet_warp(const SourceLine& where, void* operand, void (*exchange)(LaneOperands&));
  void* shared_memory(size_t offset_bytes, size_t num_bytes, size_t alignment);

  void begin_grid(const LaunchShape& shape);
  void end_grid();

  ThreadOrder order = ThreadOrder::kAscending;
  Counts counts;

 private:
  static void run_threads_forever(void* runner);
  void run_threads();
  Dim3 next_thread();
  Fiber* idle_fiber();
  void resume(Fiber* fiber);
  void wait_in(std::vector<Waiter>& waiters);
  void release(std::vector<Waiter>& waiters);
  void check_fence() const;
  void explain_deadlock() const;
  static uint32_t index_in_block();

  const std::function<void()>* body_ = nullptr;
  uint32_t num_threads_ = 0;
  uint32_t num_started_ = 0;
  uint32_t num_ended_ = 0;

  Meeting block_meeting_;
  std::vector<Waiter> block_waiters_;
  std::vector<Meeting> warp_meetings_;             // [num_warps]
  std::vector<std::vector<Waiter>> warp_waiters_;  // [num_warps]
  std::deque<Waiter> ready_;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_fibers_;
  Fiber* running_ = nullptr;

  std::vector<std::byte> shared_memory_;  // of the launch's size, then the fence
  size_t num_shared_bytes_ = 0;
};

uint32_t BlockRunner::index_in_block() {
  const Dim3& shape = place.block_shape;
  return (place.thread.z * shape.y + place.thread.y) * shape.x + place.thread.x;
}

void BlockRunner::begin_grid(const LaunchShape& shape) {
  num_threads_ = shape.block.x * shape.block.y * shape.block.z;
  const uint32_t num_warps = (num_threads_ + kWarpThreads - 1) / kWarpThreads;
  warp_meetings_.assign(num_warps, Meeting());
  if (warp_waiters_.size() < num_warps) warp_waiters_.resize(num_warps);
  num_shared_bytes_ = shape.num_shared_bytes;
  shared_memory_.assign(num_shared_bytes_ + kFenceBytes, static_cast<std::byte>(kUnwritten));
  forbid(shared_memory_.data() + num_shared_bytes_, kFenceBytes);
  place.block_shape = shape.block;
  place.grid_shape = shape.grid;
}

void BlockRunner::end_grid() {
  allow(shared_memory_.data() + num_shared_bytes_, kFenceBytes);
  check_fence();
}

void BlockRunner::run(
    const LaunchShape& shape, const Dim3& block, const std::function<void()>& body
) {
  std::memset(shared_memory_.data(), kUnwritten, shape.num_shared_bytes);
  place.block = block;
  body_ = &body;
  num_started_ = 0;
  num_ended_ = 0;
  block_meeting_ = {};
  ++counts.num_blocks;
  while (num_ended_ < num_threads_) {
    if (!ready_.empty()) {
      const Waiter next = ready_.front();
      ready_.pop_front();
      place.thread = next.thread;
      resume(next.fiber);
    } else if (num_started_ < num_threads_) {
      resume(idle_fiber());
    } else {
      explain_deadlock();
    }
  }
}

void BlockRunner::check_fence() const {
  const auto* const fence = shared_memory_.data() + num_shared_bytes_;
  const bool is_intact = std::all_of(fence, fence + kFenceBytes, [](std::byte value) {
    return value == static_cast<std::byte>(kUnwritten);
  });
  CHECK(is_intact, "a kernel wrote beyond its dynamic shared memory");
}

Fiber* BlockRunner::idle_fiber() {
  if (idle_fibers_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&BlockRunner::run_threads_forever, this));
    ++counts.num_fibers;
    return fibers_.back().get();
  }
  Fiber* const fiber = idle_fibers_.back();
  idle_fibers_.pop_back();
  return fiber;
}

void BlockRunner::resume(Fiber* fiber) {
  running_ = fiber;
  fiber->resume();
}

void BlockRunner::run_threads_forever(void* runner) {
  static_cast<BlockRunner*>(runner)->run_threads();
}

// What every fiber does: threads to their ends, until another must run.
void BlockRunner::run_threads() {
  while (true) {
    while (num_started_ < num_threads_ && ready_.empty()) {
      place.thread = next_thread();
      ++counts.num_threads;
      (*body_)();
      ++num_ended_;
    }
    idle_fibers_.push_back(running_);
    running_->pause();
  }
}

Dim3 BlockRunner::next_thread() {
  const uint32_t count = num_started_++;
  const uint32_t index = order == ThreadOrder::kAscending ? count : num_threads_ - 1 - count;
  const Dim3& shape = place.block_shape;
  return {index % shape.x, index / shape.x % shape.y, index / shape.x / shape.y};
}

void BlockRunner::wait_in(std::vector<Waiter>& waiters) {
  ++counts.num_waits;
  waiters.push_back({running_, place.thread});
  running_->pause();
}

void BlockRunner::release(std::vector<Waiter>& waiters) {
  ready_.insert(ready_.end(), waiters.begin(), waiters.end());
  waiters.clear();
}

void BlockRunner::meet_block(const SourceLine& where) {
  Meeting& meeting = block_meeting_;
  if (meeting.num_arrived == 0) meeting.where = where;
  CHECK(
      are_same(meeting.where, where),
      fmt::format(
          "thread {} of block {} waits for its block at {}, others at {}",
          words(place.thread),
          words(place.block),
          words(where),
          words(meeting.where)
      )
  );
  if (++meeting.num_arrived < num_threads_) return wait_in(block_waiters_);
  meeting.num_arrived = 0;
  release(block_waiters_);
}

void BlockRunner::meet_warp(
    const SourceLine& where, void* operand, void (*exchange)(LaneOperands&)
) {
  const uint32_t index = index_in_block();
  const uint32_t warp = index / kWarpThreads;
  CHECK(
      (warp + 1) * kWarpThreads <= num_threads_,
      fmt::format("{}: an exchange in a warp of fewer than 32 threads", words(where))
  );
  Meeting& meeting = warp_meetings_[warp];
  if (meeting.num_arrived == 0) meeting.where = where;
  CHECK(
      are_same(meeting.where, where),
      fmt::format(
          "thread {} of block {} exchanges with its warp at {}, other lanes at {}",
          words(place.thread),
          words(place.block),
          words(where),
          words(meeting.where)
      )
  );
  meeting.operands[index % kWarpThreads] = operand;
  if (++meeting.num_arrived < kWarpThreads) return wait_in(warp_waiters_[warp]);
  exchange(meeting.operands);
  meeting.num_arrived = 0;
  release(warp_waiters_[warp]);
}

// Every thread that has not ended waits for one that never comes.
void BlockRunner::explain_deadlock() const {
  std::string reason = fmt::format(
      "block {}: {} of {} threads have left the kernel",
      words(place.block),
      num_ended_,
      num_threads_
  );
  if (block_meeting_.num_arrived > 0) {
    reason += fmt::format(
        "; {} wait for their block at {}", block_meeting_.num_arrived, words(block_meeting_.where)
    );
  }
  for (size_t warp = 0; warp < warp_meetings_.size(); ++warp) {
    const Meeting& meeting = warp_meetings_[warp];
    if (meeting.num_arrived == 0) continue;
    reason += fmt::format(
        "; {} lanes of warp {} wait for the others at {}",
        meeting.num_arrived,
        warp,
        words(meeting.where)
    );
  }
  CHECK(false, reason);
}

void* BlockRunner::shared_memory(size_t offset_bytes, size_t num_bytes, size_t alignment) {
  CHECK(
      offset_bytes <= num_shared_bytes_ && num_bytes <= num_shared_bytes_ - offset_bytes,
      fmt::format(
          "bytes [{}, {}) of {} bytes of dynamic shared memory",
          offset_bytes,
          offset_bytes + num_bytes,
          num_shared_bytes_
      )
  );
  CHECK(offset_bytes % alignment == 0, "shared memory aligned to its elements");
  return shared_memory_.data() + offset_bytes;
}

BlockRunner& runner() {
  static BlockRunner runner;
  return runner;
}

std::mutex& launch_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void run_grid(const LaunchShape& shape, const std::function<void()>& body) {
  check_launch_shape(shape);
  static thread_local bool is_in_grid = false;
  CHECK(!is_in_grid, "a kernel may not launch another");
  const std::lock_guard lock(launch_mutex());
  is_in_grid = true;
  runner().begin_grid(shape);
  Dim3 block;
  for (block.z = 0; block.z < shape.grid.z; ++block.z) {
    for (block.y = 0; block.y < shape.grid.y; ++block.y) {
      for (block.x = 0; block.x < shape.grid.x; ++block.x) runner().run(shape, block, body);
    }
  }
  runner().end_grid();
  is_in_grid = false;
}

void set_thread_order(ThreadOrder order) {
  runner().order = order;
}

void meet_block(const SourceLine& where) {
  runner().meet_block(where);
}

void meet_warp(const SourceLine& where, void* operand, void (*exchange)(LaneOperands&)) {
  runner().meet_warp(where, operand, exchange);
}

void* shared_memory(size_t offset_bytes, size_t num_bytes, size_t alignment) {
  return runner().shared_memory(offset_bytes, num_bytes, alignment);
}

Counts counts() {
  return runner().counts;
}

}  // namespace millrace::cuda::emulated
