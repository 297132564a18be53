#include "kernels/rope.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// In float32 step by step, as transformers computes it.
float scaled_frequency(float frequency, const RopeScaling& scaling) {
  const auto original = static_cast<float>(scaling.original_max_position);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto high = static_cast<float>(scaling.high_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);

  const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / frequency;
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeOptions& options) {
  CHECK(options.head_dim > 0 && options.head_dim % 2 == 0, "dimensions rotate in pairs");
  const auto theta = static_cast<double>(static_cast<float>(options.theta));
  std::vector<float> frequencies(options.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(options.head_dim);
    const auto power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    frequencies[i] = 1.0F / power;
    if (options.scaling) frequencies[i] = scaled_frequency(frequencies[i], *options.scaling);
  }
  return frequencies;
}

size_t RopeTable::num_bytes(const RopeOptions& options) {
  return options.num_positions * options.head_dim * sizeof(float);
}

Result<RopeTable> RopeTable::make(const RopeOptions& options, ThreadPool& pool) {
  const std::vector<float> frequencies = rope_frequencies(options);
  Result<Buffer> buffer = Buffer::allocate(num_bytes(options));
  if (!buffer) return buffer.error();

  RopeTable table;
  table.half_ = frequencies.size();
  table.num_positions_ = options.num_positions;
  table.buffer_ = *std::move(buffer);
  const std::span<float> values = table.buffer_.as<float>();
  pool.parallel_for(options.num_positions, [&](size_t begin, size_t end) {
    for (size_t position = begin; position < end; ++position) {
      float* cosines = &values[position * options.head_dim];
      float* sines = cosines + frequencies.size();
      for (size_t i = 0; i < frequencies.size(); ++i) {
        const auto angle = static_cast<double>(static_cast<float>(position) * frequencies[i]);
        cosines[i] = static_cast<float>(std::cos(angle));
        sines[i] = static_cast<float>(std::sin(angle));
      }
    }
  });
  return table;
}

std::span<const float> RopeTable::cosines(size_t position) const {
  CHECK(position < num_positions_, "the table covers the position");
  return buffer_.as<float>().subspan(position * 2 * half_, half_);
}

std::span<const float> RopeTable::sines(size_t position) const {
  CHECK(position < num_positions_, "the table covers the position");
  return buffer_.as<float>().subspan((position * 2 + 1) * half_, half_);
}

}  // namespace millrace
