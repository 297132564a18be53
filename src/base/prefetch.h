// Asks memory for data some microseconds before they are used, so that whoever serves thousands of
// objects in turn does not wait for each of them.
#pragma once

#include <cstddef>
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

}  // namespace millrace
