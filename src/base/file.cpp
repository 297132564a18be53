#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

Error file_error(const std::string& path, const char* verb, int error_number) {
  const std::string message =
      fmt::format("cannot {} '{}': {}", verb, path, std::strerror(error_number));
  return error_number == ENOENT ? not_found(message, path) : invalid_argument(message, path);
}

// A file descriptor that is closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct OpenFile {
  Descriptor descriptor;
  size_t size = 0;
};

Result<OpenFile> open_regular(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return invalid_argument("a path cannot hold a NUL byte", path);
  }
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return file_error(path, "open", errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return file_error(path, "inspect", errno);
  if (!S_ISREG(status.st_mode)) {
    return invalid_argument(fmt::format("'{}' is not a regular file", path), path);
  }
  return OpenFile{std::move(descriptor), static_cast<size_t>(status.st_size)};
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t size_max) {
  Result<OpenFile> file = open_regular(path);
  if (!file) return file.error();
  if (file->size > size_max) {
    return invalid_argument(
        fmt::format("'{}' has {} bytes; at most {} are read", path, file->size, size_max), path
    );
  }
  std::string content(file->size, '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got =
        ::read(file->descriptor.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, "read", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  Result<OpenFile> file = open_regular(path);
  if (!file) return file.error();
  if (file->size == 0) return MappedFile(std::span<const std::byte>());
  void* address =
      ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, file->descriptor.get(), 0);
  if (address == MAP_FAILED) return file_error(path, "map", errno);
  return MappedFile({static_cast<const std::byte*>(address), file->size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::advise_sequential() const {
  if (bytes_.empty()) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace millrace
