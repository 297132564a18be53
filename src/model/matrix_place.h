// Which of a model's matrices is meant.
#pragma once

#include <cstddef>

namespace millrace {

// One for each kind of input: q, k and v are one matrix, and so are gate and up (weights.h).
enum class MatrixKind { kQkv, kAttentionOut, kGateUp, kDown, kHead };

struct MatrixPlace {
  MatrixKind kind = MatrixKind::kQkv;
  size_t layer = 0;  // 0 for the head
};

}  // namespace millrace
