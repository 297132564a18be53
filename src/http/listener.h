// Accepts connections and hands each to the I/O thread with the fewest. Survives the lack of
// descriptors: a few are held in reserve, so that health probes are answered even then.
// Lives on the first I/O thread; start() and the destructor are called from outside, while that
// thread does not run; stop() on that thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "http/address.h"
#include "http/io_thread.h"

namespace millrace::http {

class Listener {
 public:
  // `threads` and their service outlive the listener; the first thread is its own.
  Listener(
      std::span<const std::unique_ptr<IoThread>> threads, std::vector<ListeningSocket> sockets
  );

  void start();
  // Closes the listening sockets. What waits in their queues is reset by the system.
  void stop();

  size_t num_connections() const { return num_connections_ + num_surplus_connections_; }

 private:
  struct Acceptor {
    Acceptor(boost::asio::io_context& io, bool tls) : socket(io), is_tls(tls) {}
    boost::asio::posix::stream_descriptor socket;
    bool is_tls;
    bool is_armed = false;
  };
  enum class Outcome { kAccepted, kEmpty, kFull };

  void arm(Acceptor& acceptor);
  void accept_some(Acceptor& acceptor);
  Outcome accept_one(Acceptor& acceptor);
  Outcome accept_on_reserve(Acceptor& acceptor);
  void hand_over(int fd, const sockaddr_storage& peer, const Acceptor& acceptor, bool is_surplus);
  void refill_reserve();
  void pause();

  std::span<const std::unique_ptr<IoThread>> threads_;
  const HttpLimits& limits_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<UniqueFd> reserve_;
  boost::asio::steady_timer pause_timer_;
  std::chrono::milliseconds pause_time_;
  bool is_paused_ = false;
  bool is_stopped_ = false;
  std::atomic<size_t> num_connections_ = 0;
  std::atomic<size_t> num_surplus_connections_ = 0;
};

}  // namespace millrace::http
