#include "checkpoint/dummy.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "checkpoint/tensor_index.h"

namespace millrace {
namespace {

// Uniform 32 bits of a counter and a key: the "lowbias32" mixer (Wellons, 2018: two
// multiplications, avalanche bias below 0.2), with the key's halves entering before and within it
// so that two keys do not give shifted copies of one sequence. 32-bit arithmetic only, so that a
// loop over it becomes vector code; a 64-bit mixer is some four times slower and buys nothing here.
uint32_t mix_counter(uint32_t counter, uint64_t key) {
  uint32_t x = counter ^ static_cast<uint32_t>(key);
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x += static_cast<uint32_t>(key >> 32);
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

struct Distribution {
  uint64_t key = 0;
  float mean = 0.0F;
  float half_width = 0.0F;
};

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

Distribution distribution_of(const TensorInfo& tensor, uint64_t seed) {
  // A uniform distribution of half width w has the standard deviation w / sqrt(3).
  constexpr double kSqrt3 = 1.7320508075688772;
  Distribution distribution{.key = mix64(mix64(seed) ^ hash_name(tensor.name))};
  if (tensor.shape.size() >= 2) {
    const auto fan_in = static_cast<double>(tensor.shape.back());
    distribution.half_width = fan_in == 0.0 ? 0.0F : static_cast<float>(kSqrt3 / std::sqrt(fan_in));
  } else if (tensor.name.ends_with("norm.weight")) {
    distribution.mean = 1.0F;
    distribution.half_width = 0.1F;
  } else {
    distribution.half_width = static_cast<float>(kSqrt3 * 0.02);
  }
  return distribution;
}

// Values of consecutive indices whose upper 32 bits are all `high`.
void fill(const Distribution& distribution, uint32_t high, uint32_t low, std::span<float> out) {
  const uint64_t key = high == 0 ? distribution.key : mix64(distribution.key + high);
  const float scale = distribution.half_width * 0x1.0p-31F;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t bits = mix_counter(low + static_cast<uint32_t>(i), key);
    out[i] = distribution.mean + scale * static_cast<float>(static_cast<int32_t>(bits));
  }
}

class DummySource : public WeightSource {
 public:
  DummySource(TensorIndex index, std::vector<Distribution> distributions)
      : index_(std::move(index)), distributions_(std::move(distributions)) {}

  std::span<const TensorInfo> tensors() const override { return index_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    check_rows(tensor, row_begin, num_rows, out.size());
    const auto row_length = static_cast<uint64_t>(tensor.row_length());
    const Distribution& distribution = distributions_[index_.position_of(tensor)];
    uint64_t index = static_cast<uint64_t>(row_begin) * row_length;
    while (!out.empty()) {
      const uint64_t left_below_carry = (uint64_t{1} << 32) - (index & 0xFFFFFFFFU);
      const size_t count = std::min<uint64_t>(out.size(), left_below_carry);
      fill(
          distribution,
          static_cast<uint32_t>(index >> 32),
          static_cast<uint32_t>(index),
          out.first(count)
      );
      out = out.subspan(count);
      index += count;
    }
  }

  CodeForm code_form(const TensorInfo& tensor) const override {
    // As the tools of GPTQ and AWQ leave them.
    const bool is_plain =
        tensor.name == "lm_head.weight" || tensor.name == "model.embed_tokens.weight";
    if (tensor.shape.size() != 2 || is_plain) return {};
    return {.bits = 4, .num_inputs = 64, .is_symmetric = false};
  }

  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    constexpr float kZero = 8.0F;
    std::vector<float> values(out.codes.size());
    read_rows(tensor, row_begin, num_rows, values);
    const float scale = distributions_[index_.position_of(tensor)].half_width / kZero;
    for (size_t i = 0; i < values.size(); ++i) {
      out.codes[i] =
          static_cast<uint8_t>(std::clamp(std::round(values[i] / scale) + kZero, 0.0F, 15.0F));
    }
    std::ranges::fill(out.scales, scale);
    std::ranges::fill(out.bases, -kZero * scale);
  }

 private:
  TensorIndex index_;
  std::vector<Distribution> distributions_;  // by position in index_
};

}  // namespace

Result<std::unique_ptr<WeightSource>> make_dummy_weights(
    std::vector<TensorInfo> tensors, uint64_t seed
) {
  std::vector<Distribution> distributions;
  distributions.reserve(tensors.size());
  for (TensorInfo& tensor : tensors) {
    tensor.storage = StorageType::kF32;
    tensor.storage_name.clear();
    distributions.push_back(distribution_of(tensor, seed));
  }
  Result<TensorIndex> index = TensorIndex::build(std::move(tensors));
  if (!index) return index.error();
  return std::unique_ptr<WeightSource>(
      std::make_unique<DummySource>(std::move(*index), std::move(distributions))
  );
}

}  // namespace millrace
