// Several ranks by NCCL 2, which is looked for when the program runs. What is used of its C
// interface is declared in nccl_api.h (NVIDIA NCCL documentation, "API").
#include <fmt/format.h>

#include <bit>

#include "cuda/communicator.h"
#include "cuda/native/nccl_api.h"
#include "cuda/native/shared_library.h"

namespace millrace::cuda {
namespace {

using namespace nccl;

struct Library {
  GetUniqueId* get_unique_id = nullptr;
  CommInitRank* comm_init_rank = nullptr;
  CommDestroy* comm_destroy = nullptr;
  AllReduce* all_reduce = nullptr;
  AllGather* all_gather = nullptr;
  GetErrorString* get_error_string = nullptr;
};

Result<Library> load_library() {
  const Result<SharedLibrary> shared = SharedLibrary::open({"libnccl.so.2"});
  if (!shared) return not_found(fmt::format("no NCCL: {}", shared.error().message));
  Library library;
  const Result<void> found[] = {
      shared->find("ncclGetUniqueId", library.get_unique_id),
      shared->find("ncclCommInitRank", library.comm_init_rank),
      shared->find("ncclCommDestroy", library.comm_destroy),
      shared->find("ncclAllReduce", library.all_reduce),
      shared->find("ncclAllGather", library.all_gather),
      shared->find("ncclGetErrorString", library.get_error_string),
  };
  for (const Result<void>& result : found) {
    if (!result) return result.error();
  }
  return library;
}

Error failed(const Library& library, std::string_view call, Status status) {
  return {
      ErrorCode::kInternal,
      fmt::format("NCCL: {}: {}", call, library.get_error_string(status)),
  };
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const Library& library, Comm* comm, const CommunicatorOptions& options)
      : library_(library), comm_(comm), rank_(options.rank), world_size_(options.world_size) {}
  ~NcclCommunicator() override { library_.comm_destroy(comm_); }

  int32_t rank() const override { return rank_; }
  int32_t world_size() const override { return world_size_; }

  void all_reduce_sum(StreamHandle stream, float* values, size_t num_values) override {
    check(
        library_.all_reduce(values, values, num_values, kFloat32, kSum, comm_, stream.native),
        "ncclAllReduce"
    );
  }

  void all_gather(StreamHandle stream, const float* own, float* all, size_t num_values) override {
    check(
        library_.all_gather(own, all, num_values, kFloat32, comm_, stream.native), "ncclAllGather"
    );
  }

 private:
  // A rank that is gone, or a device that failed: the others cannot go on either.
  void check(Status status, std::string_view call) const {
    CHECK(status == kSuccess, failed(library_, call, status).message);
  }

  const Library library_;
  Comm* const comm_;
  const int32_t rank_;
  const int32_t world_size_;
};

}  // namespace

Result<CommunicatorId> make_communicator_id() {
  const Result<Library> library = load_library();
  if (!library) return library.error();
  UniqueId unique = {};
  const Status status = library->get_unique_id(&unique);
  if (status != kSuccess) return failed(*library, "ncclGetUniqueId", status);
  return CommunicatorId{std::bit_cast<std::array<std::byte, sizeof(UniqueId)>>(unique)};
}

Result<std::unique_ptr<Communicator>> join_device_communicator(const CommunicatorOptions& options) {
  const Result<Library> library = load_library();
  if (!library) return library.error();
  Comm* comm = nullptr;
  const auto unique = std::bit_cast<UniqueId>(options.id.bytes);
  const Status status = library->comm_init_rank(&comm, options.world_size, unique, options.rank);
  if (status != kSuccess) return failed(*library, "ncclCommInitRank", status);
  return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(*library, comm, options));
}

}  // namespace millrace::cuda
