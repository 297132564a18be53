#include "quantization/input_moments.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "kernels/linear.h"
#include "kernels/quantized/quantized_matrix.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = PackedMatrix::kPanelRows;

// Columns [begin, begin + count) of x, each as a row: [count, x.num_rows]; zeros past x.
std::vector<float> transposed(const Executor& executor, ConstRows x, size_t begin, size_t count) {
  std::vector<float> rows(count * x.num_rows);
  const size_t found = std::min(count, x.num_columns - begin);
  executor.pool.parallel_for(found, [&](size_t first, size_t last) {
    for (size_t token = 0; token < x.num_rows; ++token) {
      const float* const row = x.row(token) + begin;
      for (size_t input = first; input < last; ++input)
        rows[input * x.num_rows + token] = row[input];
    }
  });
  return rows;
}

// out += rows * transpose(rows). `rows`: [size, num_tokens]; `out`: [size, size].
void add_products(
    const Executor& executor, const std::vector<float>& rows, size_t size, std::vector<float>& out
) {
  const size_t num_tokens = rows.size() / size;
  Result<PackedMatrix> packed = PackedMatrix::allocate(DType::kFloat32, size, num_tokens);
  CHECK(packed.ok(), "memory for one batch's inputs");
  executor.pool.parallel_for(size / kPanelRows, [&](size_t begin, size_t end) {
    const size_t panel_size = kPanelRows * num_tokens;
    for (size_t panel = begin; panel < end; ++panel) {
      packed->pack_panel(panel, std::span(rows).subspan(panel * panel_size, panel_size));
    }
  });
  linear(
      executor,
      {.x = {rows.data(), size, num_tokens, num_tokens},
       .weights = *packed,
       .bias = {},
       .out = {out.data(), size, size, size},
       .epilogue = LinearEpilogue::kAddToOut}
  );
}

}  // namespace

size_t BlockMoments::num_blocks(size_t num_inputs) {
  return div_ceil(num_inputs, kBlock);
}

size_t BlockMoments::block_size(size_t block) const {
  return std::min(kBlock, num_inputs - block * kBlock);
}

float BlockMoments::square(size_t input) const {
  const size_t size = block_size(input / kBlock);
  return blocks[input / kBlock][input % kBlock * (size + 1)];
}

void InputMoments::observe(const MatrixPlace& place, ConstRows x) {
  if (x.num_rows == 0) return;  // a batch without logits, for one
  BlockMoments& moments = moments_[{place.kind, place.layer}];
  if (moments.blocks.empty()) {
    moments.num_inputs = round_up(x.num_columns, QuantizedMatrix::kGroup);
    moments.blocks.resize(BlockMoments::num_blocks(moments.num_inputs));
  }
  for (size_t block = 0; block < moments.blocks.size(); ++block) {
    const size_t size = moments.block_size(block);
    moments.blocks[block].resize(size * size);
    const std::vector<float> rows = transposed(executor_, x, block * BlockMoments::kBlock, size);
    add_products(executor_, rows, size, moments.blocks[block]);
  }
}

const BlockMoments& InputMoments::at(const MatrixPlace& place) const {
  const auto found = moments_.find({place.kind, place.layer});
  CHECK(found != moments_.end(), "the matrix was used during calibration");
  return found->second;
}

std::optional<MatrixPlace> InputMoments::find_not_finite() const {
  for (const auto& [place, moments] : moments_) {
    // By the squares alone: a product of two inputs is finite where their squares are, so is a sum.
    for (size_t input = 0; input < moments.num_inputs; ++input) {
      if (!std::isfinite(moments.square(input))) return MatrixPlace{place.first, place.second};
    }
  }
  return std::nullopt;
}

}  // namespace millrace
