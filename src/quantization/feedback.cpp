#include "quantization/feedback.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/quantized/encode_rows.h"

namespace millrace {
namespace {

constexpr size_t kPivots = 32;  // columns that are taken out of the rest at once

// Row-major, [size, size].
class SquareMatrix {
 public:
  explicit SquareMatrix(size_t size) : size_(size), values_(size * size) {}
  size_t size() const { return size_; }
  double* row(size_t index) { return &values_[index * size_]; }

 private:
  size_t size_;
  std::vector<double> values_;
};

void transpose(std::vector<float>& values, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < i; ++j) std::swap(values[i * size + j], values[j * size + i]);
  }
}

// The moments of the inputs as the kernel sees them: divided, rotated, damped.
SquareMatrix seen_by_kernel(
    std::vector<float> moments, size_t size, std::span<const float> divisors, size_t rotation
) {
  for (size_t i = 0; i < divisors.size(); ++i) {
    for (size_t j = 0; j < divisors.size(); ++j) {
      moments[i * size + j] /= divisors[i] * divisors[j];
    }
  }
  rotate(best_isa(), moments, rotation);
  transpose(moments, size);
  rotate(best_isa(), moments, rotation);

  SquareMatrix matrix(size);
  double sum = 0.0;
  for (size_t i = 0; i < size; ++i) sum += static_cast<double>(moments[i * (size + 1)]);
  const double mean = sum / static_cast<double>(size);
  const bool has_moments = std::isfinite(mean) && mean > 0.0;
  for (size_t i = 0; i < size; ++i) {
    if (has_moments) std::copy_n(&moments[i * size], i + 1, matrix.row(i));
    matrix.row(i)[i] += has_moments ? mean * kFeedbackDamping : 1.0;
  }
  return matrix;
}

// row -= factor * pivot, [count].
void subtract(double* row, double factor, const double* pivot, size_t count) {
  for (size_t j = 0; j < count; ++j) row[j] -= factor * pivot[j];
}

// Takes columns [begin, end) out of those before them, last column first. `rows`: the lower
// triangle of a symmetric matrix, from which R R^T of the later columns was taken already. Row c of
// the result, divided by its last element, is column c of R divided by R[c][c].
void take_out(SquareMatrix& rows, size_t begin, size_t end, ThreadPool& pool) {
  for (size_t c = end; c-- > begin;) {
    const double* const pivot = rows.row(c);
    for (size_t i = begin; i < c; ++i) {
      subtract(rows.row(i), pivot[i] / pivot[c], pivot, i + 1);
    }
  }
  // A row and its mirror image together are as long as any other two.
  CHECK(begin % 2 == 0, "blocks of whole groups");
  pool.parallel_for(begin / 2, [&](size_t first, size_t last) {
    for (size_t item = first; item < last; ++item) {
      for (const size_t i : {item, begin - 1 - item}) {
        for (size_t c = end; c-- > begin;) {
          const double* const pivot = rows.row(c);
          subtract(rows.row(i), pivot[i] / pivot[c], pivot, i + 1);
        }
      }
    }
  });
}

void put_factors(SquareMatrix& matrix, ThreadPool& pool, float* factors, size_t stride) {
  for (size_t end = matrix.size(); end > 0;) {
    const size_t begin = end > kPivots ? end - kPivots : 0;
    take_out(matrix, begin, end, pool);
    end = begin;
  }
  for (size_t c = 0; c < matrix.size(); ++c) {
    const double* const row = matrix.row(c);
    for (size_t j = 0; j < c; ++j) factors[c * stride + j] = static_cast<float>(row[j] / row[c]);
  }
}

}  // namespace

ErrorFeedback feedback_of(
    const BlockMoments& moments, std::span<const float> divisors, ThreadPool& pool
) {
  constexpr size_t kBlock = BlockMoments::kBlock;
  const size_t rotation = rotation_size(divisors.size());
  CHECK(kBlock % rotation == 0, "no rotation crosses blocks");
  const size_t block_size = std::min(kBlock, moments.num_inputs);
  const size_t num_blocks = moments.blocks.size();
  ErrorFeedback feedback{
      .block_size = block_size,
      .factors = std::vector<float>(num_blocks * block_size * block_size)};
  for (size_t block = 0; block < num_blocks; ++block) {
    const size_t begin = block * kBlock;
    const size_t size = moments.block_size(block);
    const std::span<const float> own =
        divisors.subspan(begin, std::min(size, divisors.size() - begin));
    SquareMatrix matrix = seen_by_kernel(moments.blocks[block], size, own, rotation);
    put_factors(matrix, pool, &feedback.factors[block * block_size * block_size], block_size);
  }
  return feedback;
}

}  // namespace millrace
