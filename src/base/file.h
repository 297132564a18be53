// Files that are read or written whole, or mapped.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

// The whole content of a regular file of at most `size_max` bytes.
Result<std::string> read_file(const std::string& path, size_t size_max = size_t{1} << 30);

// The content takes the place of the file once all of it is on the disk: where that fails, what was
// there stays. Links are followed, and a file keeps its mode. Written as they stand are devices and
// pipes, and a file whose folder takes no other or that is mounted.
Result<void> write_file(const std::string& path, std::string_view content);

// All of it, in as many writes as it takes. `name`: for the error.
Result<void> write_all(int fd, std::string_view content, const std::string& name);

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
