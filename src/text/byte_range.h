// A stretch of a UTF-8 text, in bytes.
#pragma once

#include <cstddef>

namespace millrace {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;  // one past the last byte

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace millrace
