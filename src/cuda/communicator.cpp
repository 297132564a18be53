#include "cuda/communicator.h"

#include <fmt/format.h>

#include "cuda/runtime.h"

namespace millrace::cuda {
namespace {

// One process alone: sums are what they are.
class LoneCommunicator : public Communicator {
 public:
  int32_t rank() const override { return 0; }
  int32_t world_size() const override { return 1; }
  void all_reduce_sum(StreamHandle, float*, size_t) override {}
  void all_gather(StreamHandle stream, const float* own, float* all, size_t num_values) override {
    if (own != all) copy_on_device(stream, all, own, num_values * sizeof(float));
  }
};

}  // namespace

Result<std::unique_ptr<Communicator>> join_communicator(const CommunicatorOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return invalid_argument(fmt::format(
        "rank {} of {} processes; ranks are 0 to one below their number",
        options.rank,
        options.world_size
    ));
  }
  if (options.world_size > 1) return join_device_communicator(options);
  return std::unique_ptr<Communicator>(std::make_unique<LoneCommunicator>());
}

}  // namespace millrace::cuda
