// What one template may cost. Templates come with a model or with a request, so neither their
// source nor what they do when they run is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::jinja {

struct Limits {
  size_t template_bytes_max = size_t{1} << 20;  // the largest published templates have 30 KiB
  int recursion_max = 100;                      // nesting in the source; macros inside of macros
  uint64_t steps_max = 1'000'000;               // evaluated nodes and visited items
  int64_t range_max = 100'000;                  // items of one range(), as in Jinja's sandbox
  size_t output_bytes_max = size_t{8} << 20;    // the text, with all captures that are open
  size_t string_bytes_max = size_t{16} << 20;   // any one string
  size_t memory_bytes_max = size_t{256} << 20;  // all values alive at one time
  size_t work_bytes_max = size_t{1} << 29;      // bytes copied or searched: a second at worst
};

}  // namespace millrace::jinja
