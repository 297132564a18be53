#include "interrupt_signal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

sigset_t set_of(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// What the signal does to a process that does not look at it.
void end_process(int signal) {
  const sigset_t set = set_of({signal});
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
}

}  // namespace

Result<std::unique_ptr<InterruptSignal>> InterruptSignal::make(
    const std::vector<int>& watched, std::function<void()> handler
) {
  const sigset_t set = set_of(watched);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  const int end = ::eventfd(0, EFD_CLOEXEC);
  if (signals < 0 || end < 0) {
    return invalid_argument(fmt::format("cannot watch for signals: {}", std::strerror(errno)));
  }
  return std::unique_ptr<InterruptSignal>(
      new InterruptSignal(http::UniqueFd(signals), http::UniqueFd(end), std::move(handler))
  );
}

InterruptSignal::InterruptSignal(
    http::UniqueFd signals, http::UniqueFd end, std::function<void()> handler
)
    : signals_(std::move(signals)),
      end_(std::move(end)),
      handler_(std::move(handler)),
      thread_([this] { watch(); }) {}

InterruptSignal::~InterruptSignal() {
  const uint64_t one = 1;
  static_cast<void>(::write(end_.get(), &one, sizeof one));
}

void InterruptSignal::set_handler(std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void InterruptSignal::watch() {
  while (true) {
    std::array<pollfd, 2> entries = {{
        {.fd = signals_.get(), .events = POLLIN, .revents = 0},
        {.fd = end_.get(), .events = POLLIN, .revents = 0},
    }};
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;  // EINTR
    if (entries[1].revents != 0) return;
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    const std::lock_guard lock(mutex_);
    if (handler_) {
      handler_();
    } else {
      end_process(static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace millrace
