// A KV cache in memory of its own, for tests and benchmarks.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/attention/kv_view.h"

namespace millrace {

class TestKvCache {
 public:
  // All NaN, so that a slot that was never written cannot be read unnoticed. `shape`: without
  // memory.
  explicit TestKvCache(const KvView& shape)
      : view_(shape),
        keys_(bytes_of(shape), std::byte{0xFF}),
        values_(bytes_of(shape), std::byte{0xFF}) {
    view_.keys = keys_.data();
    view_.values = values_.data();
  }
  TestKvCache(const TestKvCache&) = delete;
  TestKvCache& operator=(const TestKvCache&) = delete;

  const KvView& view() const { return view_; }
  const std::vector<std::byte>& keys() const { return keys_; }
  const std::vector<std::byte>& values() const { return values_; }

  // Widened, of one slot and KV head.
  float key(size_t slot, size_t kv_head, size_t dimension) const {
    return element(
        keys_, head_begin(slot, kv_head) + view_.key_index(slot % view_.block_size, dimension)
    );
  }
  float value(size_t slot, size_t kv_head, size_t dimension) const {
    return element(
        values_, head_begin(slot, kv_head) + view_.value_index(slot % view_.block_size, dimension)
    );
  }

 private:
  static size_t bytes_of(const KvView& shape) {
    return shape.num_elements() * size_of(shape.dtype);
  }
  size_t head_begin(size_t slot, size_t kv_head) const {
    return kv_head * view_.head_stride() + slot / view_.block_size * view_.block_stride();
  }
  float element(const std::vector<std::byte>& bytes, size_t index) const {
    float value = 0.0F;
    uint16_t half = 0;
    switch (view_.dtype) {
      case DType::kFloat32:
        std::memcpy(&value, &bytes[index * 4], 4);
        return value;
      case DType::kFloat16:
        std::memcpy(&half, &bytes[index * 2], 2);
        return to_float(Float16{half});
      case DType::kBFloat16:
        std::memcpy(&half, &bytes[index * 2], 2);
        return to_float(BFloat16{half});
    }
    return value;
  }

  KvView view_;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
};

inline float rounded_to(DType dtype, float value) {
  switch (dtype) {
    case DType::kFloat32:
      return value;
    case DType::kFloat16:
      return to_float(to_float16(value));
    case DType::kBFloat16:
      return to_float(to_bfloat16(value));
  }
  return value;
}

}  // namespace millrace
