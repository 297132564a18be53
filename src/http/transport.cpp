#include "http/transport.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace millrace::http {
namespace {

constexpr size_t kPiecesMax = 8;

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(int socket) : socket_(socket) {}

  IoResult read(std::span<char> buffer) override {
    const ssize_t rc = retry([&] { return ::recv(socket_, buffer.data(), buffer.size(), 0); });
    if (rc == 0) return {IoStatus::kEnd};
    return outcome(rc, IoStatus::kWantRead);
  }

  IoResult write(std::span<const std::string_view> pieces) override {
    if (pieces.size() == 1) return send(pieces[0]);
    std::array<iovec, kPiecesMax> vectors;
    const size_t num_vectors = std::min(pieces.size(), kPiecesMax);
    for (size_t i = 0; i < num_vectors; ++i) {
      vectors[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
    }
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = num_vectors;
    const ssize_t rc = retry([&] { return ::sendmsg(socket_, &message, MSG_NOSIGNAL); });
    return outcome(rc, IoStatus::kWantWrite);
  }

  void end_writing() override { ::shutdown(socket_, SHUT_WR); }
  bool is_buffering() const override { return false; }
  bool is_established() const override { return true; }
  std::string failure() const override {
    return std::error_code(errno_, std::system_category()).message();
  }

 private:
  IoResult send(std::string_view bytes) {
    const ssize_t rc =
        retry([&] { return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    return outcome(rc, IoStatus::kWantWrite);
  }

  template <class Call>
  static ssize_t retry(const Call& call) {
    ssize_t rc = 0;
    do {
      rc = call();
    } while (rc < 0 && errno == EINTR);
    return rc;
  }

  IoResult outcome(ssize_t rc, IoStatus would_block) {
    if (rc >= 0) return {IoStatus::kDone, static_cast<size_t>(rc)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {would_block};
    errno_ = errno;
    return {IoStatus::kFailed};
  }

  int socket_;
  int errno_ = 0;  // of the call that failed
};

sigset_t sigpipe_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

std::unique_ptr<Transport> make_plain_transport(int socket) {
  return std::make_unique<PlainTransport>(socket);
}

SigpipeBlock::SigpipeBlock() {
  const sigset_t set = sigpipe_set();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  was_blocked_ = sigismember(&before, SIGPIPE) == 1;
}

SigpipeBlock::~SigpipeBlock() {
  if (was_blocked_) return;
  // A signal that came meanwhile waits on this thread and would strike on unblocking.
  const sigset_t set = sigpipe_set();
  const timespec no_time = {};
  while (sigtimedwait(&set, nullptr, &no_time) > 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace millrace::http
