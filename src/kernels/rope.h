// Cosines and sines of rotary position embeddings (Su et al. 2021), for every position once.
//
// They follow transformers' arithmetic, because models are tuned to its rounding: the inverse
// frequencies theta^(-2i / head_dim) and the angles position * frequency are float32; cosine and
// sine of that angle are exact to float32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace millrace {

// Llama 3.1's stretching of the low frequencies: wavelengths longer than original_max_position /
// low_freq_factor grow by `factor`, those shorter than original_max_position / high_freq_factor
// stay, and those between are interpolated. REQUIRES: high_freq_factor > low_freq_factor.
struct RopeScaling {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_position = 8192.0;
};

struct RopeOptions {
  size_t head_dim = 0;  // even
  double theta = 10000.0;
  std::optional<RopeScaling> scaling;
  size_t num_positions = 0;
};

// [head_dim / 2], float32, in radians a position.
std::vector<float> rope_frequencies(const RopeOptions& options);

// Read-only after it is made; shared by all layers.
class RopeTable {
 public:
  RopeTable() = default;

  // kResourceExhausted when there is no memory for num_bytes().
  static Result<RopeTable> make(const RopeOptions& options, ThreadPool& pool);
  static size_t num_bytes(const RopeOptions& options);

  size_t head_dim() const { return 2 * half_; }
  size_t num_positions() const { return num_positions_; }

  // [head_dim / 2] of one position.
  std::span<const float> cosines(size_t position) const;
  std::span<const float> sines(size_t position) const;

  // [num_positions][2][head_dim / 2]: the cosines of a position, then its sines.
  const float* data() const { return buffer_.as<float>().data(); }

 private:
  size_t half_ = 0;
  size_t num_positions_ = 0;
  Buffer buffer_;
};

}  // namespace millrace
