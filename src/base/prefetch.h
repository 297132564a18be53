// Asks memory for data some microseconds before they are used, so that whoever serves thousands of
// objects in turn does not wait for each of them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace millrace {

inline constexpr size_t kCacheLineBytes = 64;

// To the second-level cache: the first is small, and has few places for its own misses. `data` may
// point anywhere.
inline void prefetch(const void* data, size_t num_bytes) {
  const auto* line = static_cast<const char*>(data);
  for (size_t i = 0; i < num_bytes; i += kCacheLineBytes) __builtin_prefetch(line + i, 0, 2);
}

inline void prefetch(std::string_view text) {
  prefetch(text.data(), text.size());
}

// What lies between two members of one object.
inline void prefetch_range(const void* begin, const void* end) {
  const auto* first = static_cast<const char*>(begin);
  prefetch(first, static_cast<size_t>(static_cast<const char*>(end) - first));
}

template <class T>
void prefetch_object(const T& object) {
  prefetch(&object, sizeof object);
}

// use(item) for each item in order. Before, each comes to prefetch_step(item, step) with step 0 to
// num_steps - 1, an item's use apart, so that a step may read what the one before it asked for.
template <class Item, class PrefetchStep, class Use>
void use_each_prefetched(
    std::span<Item> items, size_t num_steps, const PrefetchStep& prefetch_step, const Use& use
) {
  for (size_t turn = 0; turn < items.size() + num_steps; ++turn) {
    for (size_t step = 0; step < num_steps && step <= turn; ++step) {
      if (turn - step < items.size()) prefetch_step(items[turn - step], step);
    }
    if (turn >= num_steps) use(items[turn - num_steps]);
  }
}

}  // namespace millrace
