// Which of a model's matrices is meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

// One for each kind of input: q, k and v are one matrix, and so are gate and up (weights.h).
enum class MatrixKind { kQkv, kAttentionOut, kGateUp, kDown, kHead };

constexpr std::string_view name_of(MatrixKind kind) {
  switch (kind) {
    case MatrixKind::kQkv:
      return "qkv";
    case MatrixKind::kAttentionOut:
      return "attention_out";
    case MatrixKind::kGateUp:
      return "gate_up";
    case MatrixKind::kDown:
      return "down";
    case MatrixKind::kHead:
      break;
  }
  return "head";
}

struct MatrixPlace {
  MatrixKind kind = MatrixKind::kQkv;
  size_t layer = 0;  // 0 for the head
};

}  // namespace millrace
