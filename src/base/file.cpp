#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
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

// Where no other file may stand: in a folder of others, or where a file is mounted.
bool keeps_its_place(int error_number) {
  return error_number == EACCES || error_number == EPERM || error_number == EROFS ||
         error_number == EBUSY;
}

Result<void> write_in_place(const std::string& path, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return file_error(path, "open", errno);
  return write_all(file.get(), content, path);
}

// On the disk when it returns. `mode`: none: as the system gives it to a new file.
Result<void> write_new_file(
    const Descriptor& file,
    const std::string& path,
    std::string_view content,
    std::optional<mode_t> mode
) {
  if (mode && ::fchmod(file.get(), *mode) != 0) return file_error(path, "write to", errno);
  if (auto written = write_all(file.get(), content, path); !written) return written;
  return ::fsync(file.get()) == 0 ? Result<void>() : file_error(path, "write to", errno);
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

Result<void> write_all(int fd, std::string_view content, const std::string& name) {
  while (!content.empty()) {
    const ssize_t num_bytes = ::write(fd, content.data(), content.size());
    if (num_bytes < 0 && errno == EINTR) continue;
    if (num_bytes < 0) return file_error(name, "write to", errno);
    content.remove_prefix(static_cast<size_t>(num_bytes));
  }
  return {};
}

Result<void> write_file(const std::string& path, std::string_view content) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) return write_in_place(path, content);
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  const std::string place = error ? path : target.string();
  const std::string unfinished = place + ".part";
  const Descriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    if (keeps_its_place(errno)) return write_in_place(path, content);
    return file_error(unfinished, "open", errno);
  }
  const auto mode = exists ? std::optional<mode_t>(status.st_mode & 0777) : std::nullopt;
  Result<void> written = write_new_file(file, path, content, mode);
  if (written) {
    if (::rename(unfinished.c_str(), place.c_str()) == 0) return {};
    written =
        keeps_its_place(errno) ? write_in_place(path, content) : file_error(path, "replace", errno);
  }
  ::unlink(unfinished.c_str());
  return written;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  Result<OpenFile> file = open_regular(path);
  if (!file) return file.error();
  if (file->size == 0) return MappedFile(std::span<const std::byte>());
  void* address = ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, file->descriptor.get(), 0);
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
