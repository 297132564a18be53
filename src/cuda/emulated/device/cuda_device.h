// What kernels are written with, on the processor: the same names as native/device/cuda_device.h,
// where they are documented; the build's include path chooses. See emulated/threads.h for how it
// runs and for what it catches.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "cuda/emulated/threads.h"
#include "cuda/emulated/work.h"
#include "cuda/launch_shape.h"
#include "cuda/stream.h"
#include "cuda/words.h"
#include "cuda_numbers.h"

namespace millrace::cuda {

inline const Dim3& threadIdx = emulated::place.thread;
inline const Dim3& blockIdx = emulated::place.block;
inline const Dim3& blockDim = emulated::place.block_shape;
inline const Dim3& gridDim = emulated::place.grid_shape;

template <class... Parameters, class... Arguments>
void launch(
    StreamHandle stream,
    const LaunchShape& shape,
    void (*kernel)(Parameters...),
    const Arguments&... arguments
) {
  check_launch_shape(shape);
  run_or_record(stream, [=] {
    emulated::run_grid(shape, [&] { kernel(static_cast<Parameters>(arguments)...); });
  });
}

template <class T>
T* dynamic_shared(size_t offset_bytes, size_t count) {
  return static_cast<T*>(emulated::shared_memory(offset_bytes, count * sizeof(T), alignof(T)));
}

inline void wait_for_previous_kernel() {}
inline void allow_next_kernel() {}

inline void sync_block(const emulated::SourceLine& where = emulated::SourceLine::of_caller()) {
  emulated::meet_block(where);
}

inline void sync_warp(const emulated::SourceLine& where = emulated::SourceLine::of_caller()) {
  emulated::meet_warp(where, nullptr, [](emulated::LaneOperands&) {});
}

namespace emulated {

struct ShuffleOperand {
  uint32_t value;
  uint32_t source_lane;
  uint32_t result;
};

inline void exchange_values(LaneOperands& operands) {
  for (void* operand : operands) {
    auto& mine = *static_cast<ShuffleOperand*>(operand);
    mine.result = static_cast<const ShuffleOperand*>(operands[mine.source_lane])->value;
  }
}

struct FragmentOperand {
  float* sums;
  const uint32_t* a;
  const uint32_t* b;
};

// Products of bfloat16 are exact in float32; each sum starts from `sums` and goes up k.
void exchange_fragments(LaneOperands& operands);

}  // namespace emulated

template <class T>
T shuffle(
    T value,
    uint32_t source_lane,
    const emulated::SourceLine& where = emulated::SourceLine::of_caller()
) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  CHECK(source_lane < kWarpThreads, "a warp has 32 lanes");
  emulated::ShuffleOperand operand = {std::bit_cast<uint32_t>(value), source_lane, 0};
  emulated::meet_warp(where, &operand, emulated::exchange_values);
  return std::bit_cast<T>(operand.result);
}

template <class T>
T shuffle_xor(
    T value, uint32_t mask, const emulated::SourceLine& where = emulated::SourceLine::of_caller()
) {
  const uint32_t index = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  return shuffle(value, (index % kWarpThreads) ^ mask, where);
}

inline void multiply_fragments(
    float (&sums)[4],
    const uint32_t (&a)[4],
    const uint32_t (&b)[2],
    const emulated::SourceLine& where = emulated::SourceLine::of_caller()
) {
  emulated::FragmentOperand operand = {sums, a, b};
  emulated::meet_warp(where, &operand, emulated::exchange_fragments);
}

inline Words4 load_words(const void* from) {
  CHECK(reinterpret_cast<uintptr_t>(from) % sizeof(Words4) == 0, "a load of 16 aligned bytes");
  Words4 result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

inline uint32_t load_word(const void* from) {
  CHECK(reinterpret_cast<uintptr_t>(from) % sizeof(uint32_t) == 0, "a load of 4 aligned bytes");
  uint32_t result = 0;
  std::memcpy(&result, from, sizeof result);
  return result;
}

inline void store_word(void* to, uint32_t value) {
  CHECK(reinterpret_cast<uintptr_t>(to) % sizeof(uint32_t) == 0, "a store of 4 aligned bytes");
  std::memcpy(to, &value, sizeof value);
}

inline void store_words(void* to, const Words4& value) {
  CHECK(reinterpret_cast<uintptr_t>(to) % sizeof(Words4) == 0, "a store of 16 aligned bytes");
  std::memcpy(to, &value, sizeof value);
}

// At once.
inline void copy_words(void* shared, const void* from) {
  store_words(shared, load_words(from));
}
inline void copy_streaming(void* shared, const void* from) {
  store_words(shared, load_words(from));
}
inline void copy_word(void* shared, const void* from) {
  store_word(shared, load_word(from));
}
inline void end_copies() {}
template <uint32_t kSetsMax>
void wait_for_copies() {}

inline void prefetch(const void* /*from*/) {}

using SharedAddress = uintptr_t;
inline SharedAddress address_of_shared(const void* shared) {
  return reinterpret_cast<SharedAddress>(shared);
}
inline uint32_t load_constant_word(SharedAddress from) {
  return load_word(reinterpret_cast<const void*>(from));
}

// A thread runs until it waits, so nobody comes between.
template <class T>
void add_to_shared(T* to, T value) {
  *to += value;
}

inline bool is_last_block(uint32_t* counter, uint32_t num_blocks) {
  CHECK(*counter < num_blocks, "a counter is zero before the first block counts itself");
  if (++*counter < num_blocks) return false;
  *counter = 0;
  return true;
}

}  // namespace millrace::cuda
