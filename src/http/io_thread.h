// One thread of the server: its reactor, the connections that live on it, and their deadlines.
// Sleeps in the kernel while nothing happens.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "http/counters.h"
#include "http/deadline_queue.h"
#include "http/mailbox.h"
#include "http/service.h"
#include "http/unique_fd.h"

namespace millrace::http {

// Counts a connection for as long as it lives, in the server's total (or its surplus) and in its
// thread's load.
class ConnectionSlot {
 public:
  ConnectionSlot(std::atomic<size_t>& total, std::atomic<size_t>& load)
      : total_(&total), load_(&load) {
    ++*total_;
    ++*load_;
  }
  ConnectionSlot(ConnectionSlot&& other) noexcept
      : total_(std::exchange(other.total_, nullptr)), load_(std::exchange(other.load_, nullptr)) {}
  ConnectionSlot& operator=(ConnectionSlot&&) = delete;
  ~ConnectionSlot() {
    if (total_ == nullptr) return;
    --*load_;
    --*total_;
  }

 private:
  std::atomic<size_t>* total_;
  std::atomic<size_t>* load_;
};

// A connection as the listener hands it over.
struct Accepted {
  UniqueFd socket;  // non-blocking
  std::string remote_address;
  bool is_tls = false;
  bool is_surplus = false;  // gets one answer, from essential routes only
  ConnectionSlot slot;
};

class IoThread {
 public:
  // `service` outlives the thread. `seed` makes the request ids of this thread unique.
  IoThread(const Service& service, uint64_t seed);
  // REQUIRES: stop() was called if start() was.
  ~IoThread();

  // From any thread.
  void start(size_t index);
  void adopt(Accepted accepted);
  void drain();  // closes idle connections, the others after their current answer
  void stop();   // closes all connections; the thread ends
  void join();
  boost::asio::io_context& io() { return io_; }
  const Counters& counters() const { return counters_; }
  std::atomic<size_t>& load() { return load_; }

  // What follows is for the connections, on this thread.
  const Service& service() const { return service_; }
  Counters& counters() { return counters_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  std::span<char> read_buffer() { return *read_buffer_; }
  // Memory for one function's use.
  std::string& scratch() { return scratch_; }
  // Empty memory for what a connection has to send: it swaps it for its own empty string, and back
  // when all is sent.
  void lend_output(std::string& out) { out.swap(spare_output_); }
  void return_output(std::string& out);
  std::string_view date();
  std::string next_request_id();
  void set_deadline(Deadline& deadline, TimePoint at);
  void clear_deadline(Deadline& deadline) { deadlines_.clear(deadline); }
  // Forgets a closed connection; the caller holds it if it must live on.
  void remove(Connection& connection);

 private:
  // One read takes what a socket buffer commonly holds.
  using ReadBuffer = std::array<char, size_t{64} << 10>;

  void run(size_t index);
  void answer_ready_channels();
  void answer(ResponseChannel& channel);
  void arm_timer();
  void expire_deadlines();
  void close_all();

  const Service& service_;
  const uint64_t seed_;
  uint64_t num_request_ids_ = 0;
  boost::asio::io_context io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guard_;
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> timer_at_;
  std::shared_ptr<Mailbox> mailbox_;  // also of every ResponseChannel
  std::vector<std::shared_ptr<ResponseChannel>> ready_;
  Counters counters_;
  std::atomic<size_t> load_ = 0;
  DeadlineQueue deadlines_;
  std::unique_ptr<ReadBuffer> read_buffer_;
  std::string scratch_;
  std::string spare_output_;
  std::string date_;
  std::optional<int64_t> date_second_;
  bool is_stopped_ = false;
  // Also held by the operations that wait for their sockets.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace millrace::http
