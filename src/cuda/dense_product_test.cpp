// Products of whole numbers, which float32 and bfloat16 hold exactly, so that every order of the
// sum gives the same: on whatever device the program is linked with.
#include "cuda/dense_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cuda/device_buffer.h"
#include "cuda/graph.h"
#include "cuda/stream.h"
#include "tensor/dtype.h"

namespace millrace::cuda {
namespace {

// -2 .. 2 from the place in the matrix.
float small_number(size_t row, size_t column) {
  return static_cast<float>((row * 7 + column * 3 + row * column) % 5) - 2.0f;
}

DeviceBuffer bfloat16_matrix(const Stream& stream, int32_t num_rows, int32_t num_columns) {
  std::vector<uint16_t> bits;
  for (size_t row = 0; row < static_cast<size_t>(num_rows); ++row) {
    for (size_t column = 0; column < static_cast<size_t>(num_columns); ++column) {
      bits.push_back(to_bfloat16(small_number(row, column)).bits);
    }
  }
  DeviceBuffer buffer = *DeviceBuffer::allocate(bits.size() * sizeof(uint16_t));
  buffer.write(stream.handle(), std::as_bytes(std::span(bits)));
  return buffer;
}

class DenseProductTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<DenseProducts>> opened =
        open_dense_products({workspace_.data(), workspace_.num_bytes()});
    ASSERT_TRUE(opened) << opened.error().message;
    products_ = *std::move(opened);
  }

  // x[row, k] = small_number(row, k), w[n, k] = small_number(n, k), bias[n] = n.
  float expected(const DenseShape& shape, size_t row, size_t output) const {
    float sum = shape.has_bias ? static_cast<float>(output) : 0.0f;
    for (size_t k = 0; k < static_cast<size_t>(shape.num_inputs); ++k) {
      sum += small_number(row, k) * small_number(output, k);
    }
    return sum;
  }

  std::vector<float> run(const DenseShape& shape) {
    const DeviceBuffer x = bfloat16_matrix(stream_, shape.num_rows, shape.num_inputs);
    const DeviceBuffer w = bfloat16_matrix(stream_, shape.num_outputs, shape.num_inputs);
    const size_t num_values = static_cast<size_t>(shape.num_rows * shape.num_outputs);
    const size_t value_bytes = shape.output == ProductOutput::kFloat32 ? 4 : 2;
    const DeviceBuffer y = *DeviceBuffer::allocate(num_values * value_bytes);
    const DeviceBuffer bias = *DeviceBuffer::allocate(static_cast<size_t>(shape.num_outputs) * 4);
    write_bias(shape, bias);
    EXPECT_TRUE(products_->prepare(shape));
    products_->run(
        stream_.handle(),
        {.shape = shape,
         .x = x.as<uint16_t>(),
         .w = w.as<uint16_t>(),
         .bias = shape.has_bias ? bias.data() : nullptr,
         .y = y.data()}
    );
    std::vector<std::byte> bytes(y.num_bytes());
    y.read(stream_.handle(), bytes);
    stream_.wait();
    return to_floats(shape.output, bytes);
  }

  Stream stream_ = *Stream::create();
  DeviceBuffer workspace_ = *DeviceBuffer::allocate(size_t{32} << 20);
  std::unique_ptr<DenseProducts> products_;

 private:
  void write_bias(const DenseShape& shape, const DeviceBuffer& bias) const {
    std::vector<float> floats;
    std::vector<uint16_t> bits;
    for (int32_t n = 0; n < shape.num_outputs; ++n) {
      floats.push_back(static_cast<float>(n));
      bits.push_back(to_bfloat16(static_cast<float>(n)).bits);
    }
    const bool is_float = shape.output == ProductOutput::kFloat32;
    bias.write(
        stream_.handle(),
        is_float ? std::as_bytes(std::span(floats)) : std::as_bytes(std::span(bits))
    );
    stream_.wait();
  }

  static std::vector<float> to_floats(ProductOutput output, std::span<const std::byte> bytes) {
    std::vector<float> values;
    const size_t value_bytes = output == ProductOutput::kFloat32 ? 4 : 2;
    for (size_t i = 0; i < bytes.size(); i += value_bytes) {
      float value = 0;
      BFloat16 half;
      if (output == ProductOutput::kFloat32) {
        std::copy_n(bytes.data() + i, 4, reinterpret_cast<std::byte*>(&value));
      } else {
        std::copy_n(bytes.data() + i, 2, reinterpret_cast<std::byte*>(&half.bits));
        value = to_float(half);
      }
      values.push_back(value);
    }
    return values;
  }
};

TEST_F(DenseProductTest, IsExactForWholeNumbers) {
  // Sums of 24 products below 5 and a bias below 100 stay within bfloat16's 256.
  for (const ProductOutput output : {ProductOutput::kFloat32, ProductOutput::kBFloat16}) {
    for (const bool has_bias : {false, true}) {
      for (const int32_t num_rows : {1, 5, 16, 17, 33}) {
        const DenseShape shape = {
            .num_rows = num_rows,
            .num_inputs = 24,
            .num_outputs = 40,
            .output = output,
            .has_bias = has_bias,
        };
        const std::vector<float> y = run(shape);
        ASSERT_EQ(y.size(), static_cast<size_t>(num_rows) * 40);
        for (size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(y[i], expected(shape, i / 40, i % 40)) << num_rows << " rows, value " << i;
        }
      }
    }
  }
}

TEST_F(DenseProductTest, IsCaptured) {
  const DenseShape shape = {.num_rows = 16, .num_inputs = 64, .num_outputs = 8};
  const DeviceBuffer x = bfloat16_matrix(stream_, 16, 64);
  const DeviceBuffer w = bfloat16_matrix(stream_, 8, 64);
  const DeviceBuffer y = *DeviceBuffer::allocate(16 * 8 * sizeof(float));
  stream_.wait();
  ASSERT_TRUE(products_->prepare(shape));
  const Result<Graph> graph = Graph::capture(stream_.handle(), [&] {
    products_->run(
        stream_.handle(),
        {.shape = shape, .x = x.as<uint16_t>(), .w = w.as<uint16_t>(), .y = y.data()}
    );
  });
  ASSERT_TRUE(graph) << graph.error().message;
  graph->launch(stream_.handle());
  std::vector<float> values(16 * 8);
  y.read(stream_.handle(), std::as_writable_bytes(std::span(values)));
  stream_.wait();
  EXPECT_EQ(values[8 * 3 + 5], expected(shape, 3, 5));
}

TEST(DenseRowBucket, IsThePowerOfTwoThatHoldsTheRows) {
  EXPECT_EQ(dense_row_bucket(1), 16);
  EXPECT_EQ(dense_row_bucket(16), 16);
  EXPECT_EQ(dense_row_bucket(17), 32);
  EXPECT_EQ(dense_row_bucket(8192), 8192);
  EXPECT_EQ(dense_row_bucket(8193), 16384);
}

}  // namespace
}  // namespace millrace::cuda
