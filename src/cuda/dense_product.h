// Matrix products of many rows, by the device's own library (cuBLASLt), which is looked for when
// the program runs. For steps of one or a few rows there is a kernel: those read each weight once,
// and nothing else counts. One user at a time: the workspace is one.
//
// The library chooses its algorithm by the number of rows, and with it the order of the sums: what
// comes of a row is the same in every run, but its last bits differ between buckets of rows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/check.h"
#include "base/result.h"
#include "cuda/stream.h"

namespace millrace::cuda {

enum class ProductOutput { kBFloat16, kFloat32 };

// What an algorithm is chosen by.
struct DenseShape {
  int32_t num_rows = 0;
  int32_t num_inputs = 0;   // a multiple of 8: rows are read 16 bytes at a time
  int32_t num_outputs = 0;  // the same
  ProductOutput output = ProductOutput::kFloat32;
  bool has_bias = false;
};

// y = x * w^T + bias, summed in float32. All on the device, at multiples of 16 bytes, row-major and
// without gaps; y overlaps nothing. bfloat16 as its bits.
struct DenseProduct {
  DenseShape shape;
  const uint16_t* x = nullptr;  // bfloat16 [num_rows, num_inputs]
  const uint16_t* w = nullptr;  // bfloat16 [num_outputs, num_inputs]
  const void* bias = nullptr;   // [num_outputs], of the output's type; with has_bias
  void* y = nullptr;            // [num_rows, num_outputs], of the output's type
};

class DenseProducts {
 public:
  virtual ~DenseProducts() = default;

  // Chooses the algorithm for the shape's bucket of rows (the next power of two, at least 16), if
  // that is not done yet. kUnsupported: the library has none.
  virtual Result<void> prepare(const DenseShape& shape) = 0;

  // Into the stream, which may capture. REQUIRES: prepare() took the shape, or one of its bucket.
  virtual void run(StreamHandle stream, const DenseProduct& product) = 0;
};

// Borrowed memory on the device, at a multiple of 256 bytes: what algorithms may use beside their
// operands. NVIDIA advises 32 MiB for compute capability 9.0.
struct DenseWorkspace {
  void* device = nullptr;
  size_t num_bytes = 0;
};

// Of the calling thread's device. kNotFound: the library is not installed; kInternal: it does not
// start.
Result<std::unique_ptr<DenseProducts>> open_dense_products(DenseWorkspace workspace);

// The bucket of prepare(). REQUIRES: 1 <= num_rows <= 2^30.
inline int32_t dense_row_bucket(int32_t num_rows) {
  CHECK(num_rows >= 1 && num_rows <= 1 << 30, "a product has rows");
  const auto bucket = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(num_rows)));
  return std::max(16, bucket);
}

// CHECKs what run() requires of a product, as far as that can be seen. For implementations.
inline void check_dense_product(const DenseProduct& product) {
  const DenseShape& shape = product.shape;
  CHECK(shape.num_inputs >= 8 && shape.num_inputs % 8 == 0, "inputs come by eight");
  CHECK(shape.num_outputs >= 8 && shape.num_outputs % 8 == 0, "outputs come by eight");
  CHECK(product.x && product.w && product.y, "a product has operands");
  CHECK(shape.has_bias == (product.bias != nullptr), "a bias, where the shape has one");
  const std::array<const void*, 4> operands = {product.x, product.w, product.bias, product.y};
  for (const void* operand : operands) {
    CHECK(reinterpret_cast<uintptr_t>(operand) % 16 == 0, "operands are at multiples of 16 bytes");
  }
}

}  // namespace millrace::cuda
