#include "http/listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace millrace::http {
namespace {

using boost::asio::posix::descriptor_base;
using boost::system::error_code;

constexpr size_t kNumReservedDescriptors = 8;
// Accepted in one event, so that a flood leaves time for the connections there are.
constexpr int kAcceptsPerEvent = 64;
constexpr std::chrono::milliseconds kPauseTimeMin{20};
constexpr std::chrono::milliseconds kPauseTimeMax{500};

bool is_short_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Listener::Listener(
    std::span<const std::unique_ptr<IoThread>> threads, std::vector<ListeningSocket> sockets
)
    : threads_(threads),
      limits_(threads.front()->service().limits),
      pause_timer_(threads.front()->io()),
      pause_time_(kPauseTimeMin) {
  for (ListeningSocket& socket : sockets) {
    const bool is_tcp = std::holds_alternative<TcpAddress>(socket.address);
    const bool is_tls = is_tcp && threads.front()->service().tls.has_value();
    acceptors_.push_back(std::make_unique<Acceptor>(threads.front()->io(), is_tls));
    acceptors_.back()->socket.assign(socket.fd.release());
  }
}

void Listener::start() {
  refill_reserve();
  for (const auto& acceptor : acceptors_) arm(*acceptor);
}

void Listener::stop() {
  is_stopped_ = true;
  error_code error;
  for (const auto& acceptor : acceptors_) acceptor->socket.close(error);
  pause_timer_.cancel();
  reserve_.clear();
}

void Listener::arm(Acceptor& acceptor) {
  if (std::exchange(acceptor.is_armed, true)) return;
  acceptor.socket.async_wait(
      descriptor_base::wait_read,
      [this, &acceptor](const error_code& error) {
        acceptor.is_armed = false;
        if (!error && !is_stopped_ && !is_paused_) accept_some(acceptor);
      }
  );
}

void Listener::accept_some(Acceptor& acceptor) {
  refill_reserve();
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    const Outcome outcome = accept_one(acceptor);
    if (outcome == Outcome::kFull) return pause();
    pause_time_ = kPauseTimeMin;
    if (outcome == Outcome::kEmpty) break;
  }
  arm(acceptor);
}

Listener::Outcome Listener::accept_one(Acceptor& acceptor) {
  const bool is_surplus = num_connections_ >= limits_.num_connections_max;
  if (is_surplus && num_surplus_connections_ >= limits_.num_surplus_connections_max) {
    return Outcome::kFull;
  }
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  const int fd = ::accept4(
      acceptor.socket.native_handle(),
      reinterpret_cast<sockaddr*>(&peer),
      &size,
      SOCK_NONBLOCK | SOCK_CLOEXEC
  );
  if (fd >= 0) {
    hand_over(fd, peer, acceptor, is_surplus);
    return Outcome::kAccepted;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return Outcome::kEmpty;
  if (is_short_of_descriptors(errno)) return accept_on_reserve(acceptor);
  // The connection died in the queue (ECONNABORTED and the network errors that accept(2) passes
  // on).
  return Outcome::kAccepted;
}

Listener::Outcome Listener::accept_on_reserve(Acceptor& acceptor) {
  if (reserve_.empty() || num_surplus_connections_ >= limits_.num_surplus_connections_max) {
    return Outcome::kFull;
  }
  reserve_.pop_back();
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  const int fd = ::accept4(
      acceptor.socket.native_handle(),
      reinterpret_cast<sockaddr*>(&peer),
      &size,
      SOCK_NONBLOCK | SOCK_CLOEXEC
  );
  if (fd < 0) {
    // Without a free descriptor accept4() does not even say that nobody waits.
    const bool is_empty = errno == EAGAIN || errno == EWOULDBLOCK;
    refill_reserve();
    return is_empty ? Outcome::kEmpty : Outcome::kFull;
  }
  hand_over(fd, peer, acceptor, true);
  return Outcome::kAccepted;
}

void Listener::hand_over(
    int fd, const sockaddr_storage& peer, const Acceptor& acceptor, bool is_surplus
) {
  IoThread& thread =
      **std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
        return a->load() < b->load();
      });
  std::atomic<size_t>& total = is_surplus ? num_surplus_connections_ : num_connections_;
  thread.adopt({
      .socket = UniqueFd(fd),
      .remote_address = describe_peer(peer),
      .is_tls = acceptor.is_tls,
      .is_surplus = is_surplus,
      .slot = ConnectionSlot(total, thread.load()),
  });
}

void Listener::refill_reserve() {
  while (reserve_.size() < kNumReservedDescriptors) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    reserve_.emplace_back(fd);
  }
}

// Clients wait in the listening sockets' queues meanwhile.
void Listener::pause() {
  if (is_paused_) return;
  is_paused_ = true;
  threads_.front()->counters().add(Counters::kAcceptPauses);
  pause_timer_.expires_after(pause_time_);
  pause_time_ = std::min(pause_time_ * 2, kPauseTimeMax);
  pause_timer_.async_wait([this](const error_code& error) {
    if (error || is_stopped_) return;
    is_paused_ = false;
    for (const auto& acceptor : acceptors_) accept_some(*acceptor);
  });
}

}  // namespace millrace::http
