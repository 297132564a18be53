// Processes of one machine that compute one thing together. They are forked from one, rank 0, and
// tell each other through memory that they share and that has no name: nothing is left of it when
// they end.
//
// All ranks call the same operations in the same order, each of which ends when all have called it.
// Sums are made rank by rank from 0 on, so that every rank has the same bits in every run. Who
// waits spins, yields, then sleeps: idle means no CPU.
//
// No rank outlives the others. When rank 0 ends, however it does, the kernel kills the rest. When
// another ends, rank 0 notices within a tenth of a second of waiting for it, says so in one line on
// standard error and ends with exit code 1. A rank that lives and does not come is waited for.
//
// Belongs to one thread at a time of each process, but for what says otherwise.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

class ProcessGroup {
 public:
  static constexpr int32_t kWorldSizeMax = 64;

  // What ranks other than 0 do: the exit code of their process.
  using Work = std::function<int(ProcessGroup& group)>;

  // Starts world_size - 1 processes that do `work` and ignore SIGINT and SIGTERM: rank 0 says when
  // it is over. Returns in rank 0 alone, which is the calling process. kInvalidArgument for a
  // number of processes that cannot be, kResourceExhausted for memory or processes.
  // REQUIRES: the calling thread is the only one of its process, and will live as long.
  static Result<std::unique_ptr<ProcessGroup>> fork(int32_t world_size, const Work& work);

  // Kills the ranks that still run, if it is rank 0's.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int32_t rank() const { return rank_; }
  int32_t world_size() const { return world_size_; }

  // values[i] becomes the sum of all ranks' values[i]; of one size on all ranks.
  void all_reduce_sum(std::span<float> values);

  // `all` becomes the ranks' values in their order, as many as it has room for: what is behind is
  // dropped. `own`: of one size on all ranks; must not overlap `all`.
  void all_gather(std::span<const float> own, std::span<float> all);

  // `message` becomes rank 0's.
  void broadcast(std::vector<std::byte>& message);

  // Ends this process, as said above, if another rank has ended: for who learns of it otherwise
  // than by waiting (SIGCHLD). Any thread of rank 0 may call it.
  void end_if_one_is_lost();

  // Waits until all others have ended their work. The error names one that did not end with 0.
  // REQUIRES: rank 0.
  Result<void> wait_for_others();

 private:
  struct Shared;

  explicit ProcessGroup(int32_t world_size) : world_size_(world_size) {}
  Result<void> map_memory();
  [[noreturn]] void run(const Work& work, pid_t parent);

  // Puts `own`, at most a slot, where all ranks find it, and waits until all have done so. What
  // they have put can be read until the next exchange.
  void exchange(std::span<const std::byte> own);
  std::span<std::byte> slot(int32_t rank) const;  // of the last exchange
  std::span<const float> slot_floats(int32_t rank, size_t num_floats) const;
  void wait_for(int32_t rank);
  void sleep_until_changed(int32_t rank, uint32_t seen);

  int32_t rank_ = 0;
  int32_t world_size_ = 1;
  uint32_t num_exchanges_ = 0;  // wraps around
  Shared* shared_ = nullptr;
  std::vector<pid_t> others_;  // rank 0: of ranks 1 and up, those that were not waited for
  std::atomic_flag is_ending_;
};

}  // namespace millrace
