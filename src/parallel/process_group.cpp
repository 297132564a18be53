#include "parallel/process_group.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/check.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Stays in a core's second level of cache between the copy of one rank and the sum of another.
constexpr size_t kSlotBytes = size_t{256} << 10;
constexpr size_t kSlotFloats = kSlotBytes / sizeof(float);

// An exchange fills one half of the slots while ranks may still read the other.
constexpr size_t kNumHalves = 2;

// As in base/thread_pool.cpp: longer than ranks usually end apart within a step, and short enough
// that ranks without work use no time worth mentioning.
constexpr int kSpins = 100;
constexpr std::chrono::microseconds kYielding{500};

// How long rank 0 sleeps before it looks whether the others live.
constexpr std::chrono::milliseconds kWatch{100};

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  static_assert(sizeof(word) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
  // Every reason to return early is one to look again, which the caller does.
  (void)::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

timespec to_timespec(std::chrono::nanoseconds duration) {
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  return {
      .tv_sec = duration.count() / kNanosecondsPerSecond,
      .tv_nsec = duration.count() % kNanosecondsPerSecond};
}

std::string describe_end(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("ended with exit code {}", info.si_status);
  return fmt::format("was killed by signal {}", info.si_status);
}

// nullopt: it still runs, unless `options` makes this wait.
std::optional<siginfo_t> look_for_end(pid_t process, int options) {
  siginfo_t info = {};
  int failed = 0;
  do {
    failed = ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | options);
  } while (failed != 0 && errno == EINTR);
  CHECK(failed == 0, "a process that this one started and has not waited for");
  if (info.si_pid == 0) return std::nullopt;
  return info;
}

}  // namespace

// The slots follow: [kNumHalves][world_size][kSlotBytes].
struct ProcessGroup::Shared {
  struct alignas(64) Rank {
    std::atomic<uint32_t> num_exchanges = 0;  // that the rank has put its part into
    std::atomic<uint32_t> num_sleeping = 0;   // ranks that sleep until that changes
  };
  Rank ranks[kWorldSizeMax];
};

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::fork(int32_t world_size, const Work& work) {
  if (world_size < 1 || world_size > kWorldSizeMax) {
    return invalid_argument(
        fmt::format("a group of {} processes, expected 1 to {}", world_size, kWorldSizeMax)
    );
  }
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(world_size));
  if (Result<void> mapped = group->map_memory(); !mapped) return mapped.error();
  std::fflush(nullptr);  // or each process would write what stands in the buffers
  const pid_t self = ::getpid();
  for (int32_t rank = 1; rank < world_size; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      group->others_.clear();
      group->rank_ = rank;
      group->run(work, self);
    }
    if (process < 0) {
      const std::string reason = std::generic_category().message(errno);
      return Error{
          ErrorCode::kResourceExhausted,
          fmt::format("cannot start process {} of {}: {}", rank + 1, world_size, reason)};
    }
    group->others_.push_back(process);
  }
  return group;
}

Result<void> ProcessGroup::map_memory() {
  const size_t num_bytes =
      sizeof(Shared) + kNumHalves * static_cast<size_t>(world_size_) * kSlotBytes;
  void* const memory =
      ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{
        ErrorCode::kResourceExhausted,
        fmt::format("cannot share {} bytes between processes", num_bytes)};
  }
  shared_ = new (memory) Shared;
  return {};
}

void ProcessGroup::run(const Work& work, pid_t parent) {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);  // it ended before that was said
  const int code = work(*this);
  std::fflush(nullptr);
  ::_exit(code);  // what the parent would do at its end is not this process's to do
}

ProcessGroup::~ProcessGroup() {
  for (const pid_t process : others_) ::kill(process, SIGKILL);
  for (const pid_t process : others_) (void)look_for_end(process, 0);
  if (shared_ == nullptr) return;
  ::munmap(shared_, sizeof(Shared) + kNumHalves * static_cast<size_t>(world_size_) * kSlotBytes);
}

void ProcessGroup::all_reduce_sum(std::span<float> values) {
  while (!values.empty()) {
    const std::span<float> part = values.first(std::min(values.size(), kSlotFloats));
    exchange(std::as_bytes(part));
    std::ranges::copy(slot_floats(0, part.size()), part.begin());
    for (int32_t rank = 1; rank < world_size_; ++rank) {
      const std::span<const float> terms = slot_floats(rank, part.size());
      for (size_t i = 0; i < part.size(); ++i) part[i] += terms[i];
    }
    values = values.subspan(part.size());
  }
}

void ProcessGroup::all_gather(std::span<const float> own, std::span<float> all) {
  for (size_t begin = 0; begin < own.size(); begin += kSlotFloats) {
    const size_t size = std::min(own.size() - begin, kSlotFloats);
    exchange(std::as_bytes(own.subspan(begin, size)));
    for (int32_t rank = 0; rank < world_size_; ++rank) {
      const size_t place = static_cast<size_t>(rank) * own.size() + begin;
      if (place >= all.size()) break;
      const size_t num_taken = std::min(size, all.size() - place);
      std::ranges::copy(slot_floats(rank, num_taken), all.subspan(place).begin());
    }
  }
}

void ProcessGroup::broadcast(std::vector<std::byte>& message) {
  const bool is_sender = rank_ == 0;
  uint64_t size = message.size();
  exchange(is_sender ? std::as_bytes(std::span(&size, 1)) : std::span<const std::byte>());
  std::memcpy(&size, slot(0).data(), sizeof(size));
  message.resize(size);
  for (std::span<std::byte> left = message; !left.empty();) {
    const std::span<std::byte> part = left.first(std::min(left.size(), kSlotBytes));
    exchange(is_sender ? part : std::span<const std::byte>());
    if (!is_sender) std::ranges::copy(slot(0).first(part.size()), part.begin());
    left = left.subspan(part.size());
  }
}

Result<void> ProcessGroup::wait_for_others() {
  CHECK(rank_ == 0, "rank 0 has started the others");
  Result<void> result;
  for (size_t i = 0; i < others_.size(); ++i) {
    const siginfo_t info = *look_for_end(others_[i], 0);
    if (info.si_code == CLD_EXITED && info.si_status == EXIT_SUCCESS) continue;
    result = Error{
        ErrorCode::kInternal,
        fmt::format("rank {} of {} {}", i + 1, world_size_, describe_end(info))};
  }
  others_.clear();
  return result;
}

void ProcessGroup::exchange(std::span<const std::byte> own) {
  ++num_exchanges_;
  std::ranges::copy(own, slot(rank_).begin());
  Shared::Rank& self = shared_->ranks[rank_];
  // In one order for all ranks: who is not seen to sleep here has yet to compare the count.
  self.num_exchanges.store(num_exchanges_, std::memory_order_seq_cst);
  if (self.num_sleeping.load(std::memory_order_seq_cst) != 0) {
    futex(self.num_exchanges, FUTEX_WAKE, kWorldSizeMax, nullptr);
  }
  for (int32_t rank = 0; rank < world_size_; ++rank) wait_for(rank);
}

std::span<std::byte> ProcessGroup::slot(int32_t rank) const {
  const size_t half = num_exchanges_ % kNumHalves;
  const size_t index = half * static_cast<size_t>(world_size_) + static_cast<size_t>(rank);
  std::byte* const slots = reinterpret_cast<std::byte*>(shared_) + sizeof(Shared);
  return {slots + index * kSlotBytes, kSlotBytes};
}

std::span<const float> ProcessGroup::slot_floats(int32_t rank, size_t num_floats) const {
  return {reinterpret_cast<const float*>(slot(rank).data()), num_floats};
}

void ProcessGroup::wait_for(int32_t rank) {
  const std::atomic<uint32_t>& count = shared_->ranks[rank].num_exchanges;
  // A rank is at most one exchange ahead, so that any other number is one to come.
  const auto has_come = [&](uint32_t seen) {
    return seen == num_exchanges_ || seen == num_exchanges_ + 1;
  };
  for (int spin = 0; spin < kSpins; ++spin) {
    if (has_come(count.load(std::memory_order_acquire))) return;
    _mm_pause();
  }
  for (const Clock::time_point end = Clock::now() + kYielding; Clock::now() < end;) {
    if (has_come(count.load(std::memory_order_acquire))) return;
    ::sched_yield();
  }
  for (;;) {
    const uint32_t seen = count.load(std::memory_order_acquire);
    if (has_come(seen)) return;
    sleep_until_changed(rank, seen);
    if (count.load(std::memory_order_acquire) == seen) end_if_one_is_lost();
  }
}

void ProcessGroup::sleep_until_changed(int32_t rank, uint32_t seen) {
  Shared::Rank& other = shared_->ranks[rank];
  const timespec watch = to_timespec(kWatch);
  other.num_sleeping.fetch_add(1, std::memory_order_seq_cst);
  // The others need not look: they end with rank 0.
  futex(other.num_exchanges, FUTEX_WAIT, seen, rank_ == 0 ? &watch : nullptr);
  other.num_sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

void ProcessGroup::end_if_one_is_lost() {
  for (size_t i = 0; i < others_.size(); ++i) {
    const std::optional<siginfo_t> end = look_for_end(others_[i], WNOHANG | WNOWAIT);
    if (!end) continue;
    if (is_ending_.test_and_set()) return;  // another thread says it
    const std::string line = fmt::format(
        "rank {} of {} {}: the others cannot go on\n", i + 1, world_size_, describe_end(*end)
    );
    std::fputs(line.c_str(), stderr);
    std::_Exit(EXIT_FAILURE);
  }
}

}  // namespace millrace
