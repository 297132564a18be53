// The owner of a file descriptor.
#pragma once

#include <unistd.h>

#include <optional>
#include <utility>

namespace millrace::http {

class UniqueFd {
 public:
  UniqueFd() = default;
  // REQUIRES: `fd` is open and nobody else closes it.
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, std::nullopt)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, std::nullopt);
    return *this;
  }
  ~UniqueFd() { reset(); }

  explicit operator bool() const { return fd_.has_value(); }
  // REQUIRES: it owns one.
  int get() const { return *fd_; }
  int release() { return *std::exchange(fd_, std::nullopt); }
  void reset() {
    if (fd_) ::close(*std::exchange(fd_, std::nullopt));
  }

 private:
  std::optional<int> fd_;
};

}  // namespace millrace::http
