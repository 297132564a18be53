// Files that are read whole or mapped.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace millrace {

// The whole content of a regular file of at most `size_max` bytes.
Result<std::string> read_file(const std::string& path, size_t size_max = size_t{1} << 30);

// A read-only mapping of a whole regular file; the bytes live as long as this object.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Tells the system that the bytes are read once, from front to back: it reads further ahead and
  // keeps less behind. A hint; nothing depends on it.
  void advise_sequential() const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace millrace
