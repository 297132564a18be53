#include "loadgen/mock/mock_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace millrace::bench {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{10};
constexpr size_t kEventsMax = 256;
constexpr size_t kConnectionsMax = 65536;  // of one thread

// What an event belongs to. No connection has this turn.
constexpr uint32_t kOwnTurn = 0;
constexpr uint64_t kWakeData = 0;
constexpr uint64_t kListenerData = 1;

uint64_t pack(ConnectionId id) {
  return uint64_t{id.turn} << 32 | id.slot;
}

ConnectionId unpack(uint64_t data) {
  return {.slot = static_cast<uint32_t>(data), .turn = static_cast<uint32_t>(data >> 32)};
}

Error system_error(const char* what) {
  return {ErrorCode::kResourceExhausted, fmt::format("{}: {}", what, std::strerror(errno))};
}

bool watch(int epoll, int fd, uint32_t events, uint64_t data) {
  epoll_event event = {.events = events, .data = {.u64 = data}};
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<MockThread>> MockThread::make(
    MockState& state, std::span<const std::unique_ptr<MockThread>> peers
) {
  std::unique_ptr<MockThread> thread(new MockThread(state, peers));
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return system_error("cannot make an epoll instance");
  thread->epoll_ = http::UniqueFd(epoll);
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event < 0) return system_error("cannot make an event");
  thread->wake_event_ = http::UniqueFd(event);
  if (!watch(epoll, event, EPOLLIN, kWakeData)) return system_error("cannot watch an event");
  return thread;
}

MockThread::~MockThread() {
  join();
}

void MockThread::start(size_t index, std::optional<http::UniqueFd> listener) {
  listener_ = std::move(listener);
  thread_ = std::thread([this, index] { run(index); });
}

void MockThread::adopt(http::UniqueFd socket) {
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.sockets.push_back(std::move(socket));
  }
  wake();
}

void MockThread::admit(ConnectionId connection) {
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.admitted.push_back(connection);
  }
  wake();
}

void MockThread::stop() {
  is_stopping_.store(true, std::memory_order_release);
  wake();
}

void MockThread::join() {
  if (thread_.joinable()) thread_.join();
}

void MockThread::wake() {
  const uint64_t one = 1;
  // It fails only when the count is at its limit: then a wake-up waits already.
  static_cast<void>(::write(wake_event_.get(), &one, sizeof one));
}

void MockThread::die() {
  for (const std::unique_ptr<MockThread>& peer : peers_) peer->stop();
}

void MockThread::leave_turn() {
  const std::optional<MockTurns::Place> next = state_.turns().leave();
  if (!next) return;
  if (next->thread == this) {
    admitted_.push_back(next->connection);
  } else {
    next->thread->admit(next->connection);
  }
}

void MockThread::run(size_t index) {
  pthread_setname_np(pthread_self(), fmt::format("mock-{}", index).c_str());
  // Timers are late by 50 us otherwise.
  static_cast<void>(::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0));
  if (listener_) watch_listener(true);
  while (!is_stopping_.load(std::memory_order_acquire)) {
    wait();
    run_due();
    pass_turns(std::exchange(admitted_, {}));
  }
  listener_.reset();
  // All go at once: nobody gets the turns that they leave.
  for (Slot& slot : slots_) slot.connection.reset();
}

std::optional<Duration> MockThread::time_to_sleep() const {
  std::optional<TimePoint> next = accept_again_at_;
  if (!due_.empty() && (!next || due_.top().when < *next)) next = due_.top().when;
  if (!admitted_.empty()) return Duration{0};
  if (!next) return std::nullopt;
  return std::max(*next - Clock::now(), Duration{0});
}

void MockThread::wait() {
  std::array<epoll_event, kEventsMax> events;
  timespec timeout = {};
  const std::optional<Duration> sleep = time_to_sleep();
  if (sleep) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*sleep);
    timeout.tv_sec = seconds.count();
    timeout.tv_nsec = (*sleep - seconds).count();
  }
  const int num_events =
      ::epoll_pwait2(epoll_.get(), events.data(), kEventsMax, sleep ? &timeout : nullptr, nullptr);
  for (int i = 0; i < num_events; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeData) {
      take_inbox();
    } else if (event.data.u64 == kListenerData) {
      accept_all();
    } else {
      const ConnectionId id = unpack(event.data.u64);
      MockConnection* connection = find(id);
      if (connection != nullptr && !connection->on_events(event.events)) close(id);
    }
  }
}

void MockThread::watch_listener(bool is_watched) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = kListenerData}};
  const int operation = is_watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
  static_cast<void>(::epoll_ctl(epoll_.get(), operation, listener_->get(), &event));
}

void MockThread::accept_all() {
  while (true) {
    const int fd = ::accept4(listener_->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (fd < 0) {
      // No descriptors or no memory: they come back when others close.
      watch_listener(false);
      accept_again_at_ = Clock::now() + kAcceptPause;
      return;
    }
    const size_t peer = next_peer_++ % peers_.size();
    if (peers_[peer].get() == this) {
      open(http::UniqueFd(fd));
    } else {
      peers_[peer]->adopt(http::UniqueFd(fd));
    }
  }
}

void MockThread::open(http::UniqueFd socket) {
  if (free_slots_.empty()) {
    if (slots_.size() == kConnectionsMax) return;
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  if (++slot.turn == kOwnTurn) ++slot.turn;
  const ConnectionId id = {.slot = index, .turn = slot.turn};
  slot.connection = std::make_unique<MockConnection>(*this, std::move(socket), id);
  const bool is_watched = watch(
      epoll_.get(), slot.connection->fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, pack(id)
  );
  if (!is_watched) close(id);
}

void MockThread::close(ConnectionId id) {
  slots_[id.slot].connection.reset();
  free_slots_.push_back(id.slot);
}

MockConnection* MockThread::find(ConnectionId id) {
  if (id.slot >= slots_.size() || slots_[id.slot].turn != id.turn) return nullptr;
  return slots_[id.slot].connection.get();
}

void MockThread::take_inbox() {
  uint64_t count = 0;
  // Before the inbox: what comes after it wakes again.
  static_cast<void>(!::read(wake_event_.get(), &count, sizeof count));
  Inbox inbox;
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox = std::exchange(inbox_, {});
  }
  for (http::UniqueFd& socket : inbox.sockets) open(std::move(socket));
  pass_turns(std::move(inbox.admitted));
}

void MockThread::pass_turns(std::vector<ConnectionId> admitted) {
  for (const ConnectionId id : admitted) {
    MockConnection* connection = find(id);
    if (connection == nullptr) {
      leave_turn();  // it went meanwhile
    } else if (!connection->on_turn()) {
      close(id);
    }
  }
}

void MockThread::run_due() {
  const TimePoint now = Clock::now();
  if (accept_again_at_ && *accept_again_at_ <= now) {
    accept_again_at_.reset();
    watch_listener(true);
  }
  while (!due_.empty() && due_.top().when <= now) {
    const Due due = due_.top();
    due_.pop();
    MockConnection* connection = find(due.connection);
    if (connection != nullptr && !connection->on_due(due.when)) close(due.connection);
  }
}

}  // namespace millrace::bench
