// nccl_api.h against the library's own header, while compiling. Left out of the build where that
// header is not installed.
#include <nccl.h>

#include <type_traits>

#include "cuda/native/nccl_api.h"

namespace millrace::cuda::nccl {
namespace {

static_assert(kSuccess == static_cast<int>(ncclSuccess));
static_assert(kFloat32 == static_cast<int>(::ncclFloat32));
static_assert(kSum == static_cast<int>(::ncclSum));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(ncclResult_t) == sizeof(Status) && sizeof(ncclDataType_t) == sizeof(DataType));
static_assert(sizeof(ncclRedOp_t) == sizeof(Reduction));

// Their functions take what ours are called with, in this order.
static_assert(std::is_same_v<
              decltype(ncclCommInitRank),
              ncclResult_t(ncclComm_t*, int, ncclUniqueId, int)>);
static_assert(std::is_same_v<
              decltype(ncclAllReduce),
              ncclResult_t(
                  const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t
              )>);
static_assert(std::is_same_v<
              decltype(ncclAllGather),
              ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)>);

}  // namespace
}  // namespace millrace::cuda::nccl
