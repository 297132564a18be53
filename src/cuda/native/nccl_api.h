// What is used of NCCL 2's C interface, declared here since its header need not be installed.
// nccl_api_check.cpp compares it with that where it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::cuda::nccl {

enum Status : int32_t { kSuccess = 0 };
enum DataType : int32_t { kFloat32 = 7 };  // ncclDataType_t
enum Reduction : int32_t { kSum = 0 };     // ncclRedOp_t

struct UniqueId {
  char bytes[128];
};
struct Comm;  // opaque; ncclComm_t points to one

// Function types, under the library's names without their prefix. Streams are cudaStream_t.
using GetUniqueId = Status(UniqueId*);
using CommInitRank = Status(Comm**, int num_ranks, UniqueId, int rank);
using CommDestroy = Status(Comm*);
using GetErrorString = const char*(Status);
using AllReduce =
    Status(const void* from, void* to, size_t count, DataType, Reduction, Comm*, void* stream);
using AllGather =
    Status(const void* from, void* to, size_t count_each, DataType, Comm*, void* stream);

}  // namespace millrace::cuda::nccl
