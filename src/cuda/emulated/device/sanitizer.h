// What AddressSanitizer must be told of other stacks; nothing where it is not compiled in.
// Two versions of each function, of which the build's flags choose one here and nowhere else.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace millrace::cuda::emulated {

#ifdef __SANITIZE_ADDRESS__

inline void start_switch(void** fake_stack, const void* bottom, size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
inline void finish_switch(void* fake_stack, const void** old_bottom, size_t* old_size) {
  __sanitizer_finish_switch_fiber(fake_stack, old_bottom, old_size);
}
// Nobody may touch these bytes, or everybody may again.
inline void forbid(const void* begin, size_t size) {
  __asan_poison_memory_region(begin, size);
}
inline void allow(const void* begin, size_t size) {
  __asan_unpoison_memory_region(begin, size);
}

#else

inline void start_switch(void** /*fake_stack*/, const void* /*bottom*/, size_t /*size*/) {}
inline void finish_switch(void* /*fake*/, const void** /*bottom*/, size_t* /*size*/) {}
inline void forbid(const void* /*begin*/, size_t /*size*/) {}
inline void allow(const void* /*begin*/, size_t /*size*/) {}

#endif

}  // namespace millrace::cuda::emulated
