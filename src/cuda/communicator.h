// What the processes of one model say to each other, each with a device and a part of every matrix
// (tensor parallelism). One process alone needs no library for it; several take NCCL, which is
// looked for when the program runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "cuda/stream.h"

namespace millrace::cuda {

// All operations go into the stream, and every rank must give the same ones in the same order.
// Belongs to one thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;

  // values[i] becomes the sum of all ranks' values[i]: float32 [num_values], on the device.
  virtual void all_reduce_sum(StreamHandle stream, float* values, size_t num_values) = 0;

  // `all` becomes the ranks' values, in their order: float32 [world_size, num_values]. `own` is
  // float32 [num_values] and overlaps nothing of `all`, or is its place in it.
  virtual void all_gather(StreamHandle stream, const float* own, float* all, size_t num_values) = 0;
};

// What the ranks of one group have in common: rank 0 makes it, and the others are told.
struct CommunicatorId {
  std::array<std::byte, 128> bytes = {};
};

struct CommunicatorOptions {
  int32_t rank = 0;        // 0 .. world_size - 1
  int32_t world_size = 1;  // processes
  CommunicatorId id;       // of no meaning to one process alone
};

// kNotFound: there is no NCCL. Rank 0 calls it.
Result<CommunicatorId> make_communicator_id();

// Returns when all ranks have joined. kInvalidArgument for a rank that is none. For several ranks:
// kNotFound, there is no NCCL; kInternal, it fails. REQUIRES: the thread uses its rank's device.
Result<std::unique_ptr<Communicator>> join_communicator(const CommunicatorOptions& options);

// The runtime's half of join_communicator(): two ranks at least.
Result<std::unique_ptr<Communicator>> join_device_communicator(const CommunicatorOptions& options);

}  // namespace millrace::cuda
