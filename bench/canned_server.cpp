#include "bench/canned_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <deque>
#include <unordered_map>
#include <utility>

#include "bench/process_meter.h"
#include "http/unique_fd.h"

namespace millrace::bench {
namespace {

// What one connection has yet to be sent.
struct Peer {
  size_t num_bytes_read = 0;
  size_t num_answers_owed = 0;
  size_t piece = 0;
  size_t num_bytes_sent = 0;  // of the piece
};

// Runs in the forked process until it is killed.
class CannedLoop {
 public:
  CannedLoop(const CannedAnswer& answer, int listener)
      : answer_(answer), listener_(listener), epoll_(::epoll_create1(0)) {
    watch(listener_);
  }

  [[noreturn]] void run() {
    while (true) {
      std::array<epoll_event, 512> events;
      const std::optional<Duration> timeout = next_timeout();
      const timespec time = to_timespec(timeout.value_or(Duration{0}));
      const int num = ::epoll_pwait2(
          epoll_, events.data(), static_cast<int>(events.size()), timeout ? &time : nullptr, nullptr
      );
      for (int i = 0; i < num; ++i) take(events[static_cast<size_t>(i)].data.fd);
      answer_.period ? send_due() : send_round();
    }
  }

 private:
  struct Due {
    TimePoint when;
    int fd;
  };

  static timespec to_timespec(Duration time) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const auto rest = std::chrono::nanoseconds(time - seconds);
    return {.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  }

  // none: until something comes.
  std::optional<Duration> next_timeout() const {
    if (answer_.period) {
      if (due_.empty()) return std::nullopt;
      return std::max(Duration{0}, due_.front().when - Clock::now());
    }
    if (active_.empty()) return std::nullopt;
    return has_sent_ ? Duration{0} : std::chrono::milliseconds(1);
  }

  void watch(int fd) {
    epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  void take(int fd) {
    if (fd == listener_) {
      const int peer = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
      const int on = 1;
      ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      watch(peer);
      return;
    }
    std::array<char, 65536> buffer;
    const ssize_t num = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (num <= 0) {
      std::erase(active_, fd);
      peers_.erase(fd);
      ::close(fd);
      return;
    }
    Peer& peer = peers_[fd];
    peer.num_bytes_read += static_cast<size_t>(num);
    if (answer_.period) {
      if (peer.num_bytes_read == answer_.num_request_bytes) due_.push_back({Clock::now(), fd});
      return;
    }
    if (peer.num_answers_owed == 0) active_.push_back(fd);
    peer.num_answers_owed += peer.num_bytes_read / answer_.num_request_bytes;
    peer.num_bytes_read %= answer_.num_request_bytes;
    if (peer.num_answers_owed == 0) active_.pop_back();
  }

  // The next piece to each whose time has come. The period is the same for all, so those that are
  // due next stand in front.
  void send_due() {
    const TimePoint now = Clock::now();
    while (!due_.empty() && due_.front().when <= now) {
      const Due due = due_.front();
      due_.pop_front();
      const auto found = peers_.find(due.fd);
      if (found == peers_.end()) continue;  // it left
      const std::string& piece = answer_.pieces[found->second.piece];
      ::send(due.fd, piece.data(), piece.size(), MSG_NOSIGNAL);
      found->second.piece = std::min(found->second.piece + 1, answer_.pieces.size() - 1);
      due_.push_back({due.when + *answer_.period, due.fd});
    }
  }

  // One piece to each that waits for some.
  void send_round() {
    has_sent_ = false;
    for (size_t i = 0; i < active_.size();) {
      Peer& peer = peers_[active_[i]];
      const std::string& piece = answer_.pieces[peer.piece];
      const ssize_t num = ::send(
          active_[i],
          piece.data() + peer.num_bytes_sent,
          piece.size() - peer.num_bytes_sent,
          MSG_NOSIGNAL
      );
      if (num > 0) {
        has_sent_ = true;
        advance(peer, static_cast<size_t>(num));
      }
      if (peer.num_answers_owed > 0) {
        ++i;
      } else {
        active_[i] = active_.back();
        active_.pop_back();
      }
    }
  }

  void advance(Peer& peer, size_t num_bytes) {
    peer.num_bytes_sent += num_bytes;
    if (peer.num_bytes_sent < answer_.pieces[peer.piece].size()) return;
    peer.num_bytes_sent = 0;
    if (++peer.piece < answer_.pieces.size()) return;
    peer.piece = 0;
    --peer.num_answers_owed;
  }

  const CannedAnswer& answer_;
  int listener_;
  int epoll_;
  bool has_sent_ = true;
  std::vector<int> active_;
  std::deque<Due> due_;  // of a paced answer; the earliest first
  std::unordered_map<int, Peer> peers_;
};

// The same kind of address as `like`, free.
http::Address address_like(const http::Address& like) {
  if (const auto* local = std::get_if<http::UnixAddress>(&like)) {
    return http::UnixAddress{local->path + ".limit"};
  }
  return http::TcpAddress{.host = "127.0.0.1", .port = 0};
}

}  // namespace

Result<CannedServer> CannedServer::start(
    const CannedAnswer& answer, const http::Address& like, int core
) {
  // With the buffers that the real server's sockets have.
  const Result<http::ListeningSocket> listener = http::listen_on(address_like(like), {});
  if (!listener) return listener.error();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{ErrorCode::kInternal, "cannot fork"};
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!pin_to_core(core)) ::_exit(1);
    CannedLoop(answer, listener->fd.get()).run();
  }
  return CannedServer(pid, listener->address);
}

CannedServer::CannedServer(CannedServer&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), address_(std::move(other.address_)) {}

CannedServer::~CannedServer() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  if (const auto* local = std::get_if<http::UnixAddress>(&address_)) ::unlink(local->path.c_str());
}

}  // namespace millrace::bench
