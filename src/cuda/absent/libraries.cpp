// What a build without the CUDA toolkit says of models, and of the libraries beside it.
#include "cuda/communicator.h"
#include "cuda/cuda_runner.h"
#include "cuda/dense_product.h"
#include "cuda/device_meter.h"
#include "cuda/runtime.h"

namespace millrace::cuda {

Result<CudaRunner> load_cuda_runner(
    const ModelConfig& /*config*/,
    const WeightSource& /*source*/,
    const CudaRunnerOptions& options,
    ThreadPool& /*pool*/,
    const LoadProgress& /*progress*/
) {
  return find_device(options.device).error();
}

Result<std::unique_ptr<DenseProducts>> open_dense_products(DenseWorkspace) {
  return find_device(0).error();
}

Result<std::unique_ptr<DeviceMeter>> open_device_meter(int32_t device) {
  return find_device(device).error();
}

Result<CommunicatorId> make_communicator_id() {
  return find_device(0).error();
}

Result<std::unique_ptr<Communicator>> join_device_communicator(const CommunicatorOptions&) {
  return find_device(0).error();
}

}  // namespace millrace::cuda
