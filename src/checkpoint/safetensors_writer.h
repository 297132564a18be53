// Writing a safetensors file (safetensors.h): tensors that need not be in memory all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

struct TensorToWrite {
  using Put = std::function<void(std::span<const std::byte>)>;

  std::string name;
  std::string dtype;  // the format's word: "F32", "BF16", "U8"
  std::vector<int64_t> shape;
  size_t num_bytes = 0;
  // Puts the tensor's num_bytes, front to back, in as many parts as it likes.
  std::function<void(const Put& put)> write;
};

// Called after each tensor.
using WriteProgress = std::function<void(size_t num_written, size_t num_tensors)>;

// Writes `path`, whole or not at all: under another name first. The data begins at a multiple of 64
// bytes. REQUIRES: names that differ. The error names the file: it cannot be written, or the disk
// is full.
Result<void> write_safetensors(
    const std::string& path,
    std::span<const TensorToWrite> tensors,
    const WriteProgress& progress = {}
);

}  // namespace millrace
