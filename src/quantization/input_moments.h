// What calibration learns of a model: the second moments of the inputs of its matrices, summed over
// the tokens of some texts.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kernels/rows.h"
#include "model/decoder.h"
#include "model/matrix_place.h"

namespace millrace {

// Sums of x x^T over rows x, in blocks along the inputs: what two inputs of different blocks have
// in common is not kept. Inputs are padded with zeros to whole groups of 64.
struct BlockMoments {
  static constexpr size_t kBlock = 1024;  // inputs of a block; the last one may be shorter

  size_t num_inputs = 0;                   // padded
  std::vector<std::vector<float>> blocks;  // each [size, size] of its own size

  static size_t num_blocks(size_t num_inputs);
  size_t block_size(size_t block) const;
  // The sum of x[input]^2.
  float square(size_t input) const;
};

// Sums while it observes. Deterministic: the same batches in the same order give the same bits.
class InputMoments : public InputObserver {
 public:
  explicit InputMoments(ThreadPool& pool, Isa isa = best_isa()) : executor_{isa, pool} {}

  void observe(const MatrixPlace& place, ConstRows x) override;

  // REQUIRES: observed.
  const BlockMoments& at(const MatrixPlace& place) const;

  // A matrix whose inputs, or whose sums of their squares, are not finite; none: there is none.
  std::optional<MatrixPlace> find_not_finite() const;

 private:
  Executor executor_;
  std::map<std::pair<MatrixKind, size_t>, BlockMoments> moments_;
};

}  // namespace millrace
