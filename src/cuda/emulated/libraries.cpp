// Matrix products on the emulated device: one sum after the other, in the order of the inputs. The
// emulated device is one alone.
#include <cstring>
#include <set>
#include <tuple>

#include "base/check.h"
#include "cuda/communicator.h"
#include "cuda/dense_product.h"
#include "cuda/emulated/device_memory.h"
#include "cuda/emulated/work.h"
#include "tensor/dtype.h"

namespace millrace::cuda {
namespace {

float from_bits(uint16_t bits) {
  return to_float(BFloat16{bits});
}

void store(const DenseProduct& product, size_t index, float value) {
  if (product.shape.output == ProductOutput::kFloat32) {
    static_cast<float*>(product.y)[index] = value;
  } else {
    static_cast<uint16_t*>(product.y)[index] = to_bfloat16(value).bits;
  }
}

float bias_of(const DenseProduct& product, size_t output) {
  if (product.bias == nullptr) return 0.0f;
  if (product.shape.output == ProductOutput::kFloat32) {
    return static_cast<const float*>(product.bias)[output];
  }
  return from_bits(static_cast<const uint16_t*>(product.bias)[output]);
}

void multiply(const DenseProduct& product) {
  const auto num_rows = static_cast<size_t>(product.shape.num_rows);
  const auto num_inputs = static_cast<size_t>(product.shape.num_inputs);
  const auto num_outputs = static_cast<size_t>(product.shape.num_outputs);
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t output = 0; output < num_outputs; ++output) {
      float sum = 0.0f;
      for (size_t i = 0; i < num_inputs; ++i) {
        sum += from_bits(product.x[row * num_inputs + i]) *
               from_bits(product.w[output * num_inputs + i]);
      }
      store(product, row * num_outputs + output, sum + bias_of(product, output));
    }
  }
}

class EmulatedDenseProducts : public DenseProducts {
 public:
  Result<void> prepare(const DenseShape& shape) override {
    prepared_.insert(key(shape));
    return {};
  }

  void run(StreamHandle stream, const DenseProduct& product) override {
    check_dense_product(product);
    CHECK(prepared_.contains(key(product.shape)), "a product that was not prepared");
    run_or_record(stream, [product] { multiply(product); });
  }

 private:
  using Key = std::tuple<int32_t, int32_t, int32_t, ProductOutput, bool>;
  static Key key(const DenseShape& shape) {
    return {
        dense_row_bucket(shape.num_rows),
        shape.num_inputs,
        shape.num_outputs,
        shape.output,
        shape.has_bias};
  }

  std::set<Key> prepared_;
};

Error one_device() {
  return not_found("the emulated CUDA device is one alone: there is no NCCL");
}

}  // namespace

Result<std::unique_ptr<DenseProducts>> open_dense_products(DenseWorkspace workspace) {
  CHECK(device_memory().holds(workspace.device, workspace.num_bytes), "workspace on the device");
  return std::unique_ptr<DenseProducts>(std::make_unique<EmulatedDenseProducts>());
}

Result<CommunicatorId> make_communicator_id() {
  return one_device();
}

Result<std::unique_ptr<Communicator>> join_device_communicator(const CommunicatorOptions&) {
  return one_device();
}

}  // namespace millrace::cuda
