#include "http/io_thread.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <ctime>
#include <exception>
#include <span>
#include <utility>

#include "base/prefetch.h"
#include "base/rng.h"
#include "http/connection.h"

namespace millrace::http {
namespace {

// How late a deadline may be: those of many connections then share one wake-up.
constexpr std::chrono::milliseconds kTimerSlack{10};
// A buffer that one large event blew up is given back.
constexpr size_t kBufferCapacityMax = size_t{256} << 10;

}  // namespace

IoThread::IoThread(const Service& service, uint64_t seed)
    : service_(service),
      seed_(seed),
      io_(1),
      timer_(io_),
      mailbox_(std::make_shared<Mailbox>([this] {
        boost::asio::post(io_, [this] { answer_ready_channels(); });
      })),
      read_buffer_(std::make_unique<ReadBuffer>()) {}

IoThread::~IoThread() {
  mailbox_->close();
  join();
}

void IoThread::start(size_t index) {
  guard_.emplace(io_.get_executor());
  thread_ = std::thread([this, index] { run(index); });
}

void IoThread::run(size_t index) {
  pthread_setname_np(pthread_self(), fmt::format("http-io-{}", index).c_str());
  const SigpipeBlock block;
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& exception) {
      // Only memory that ran out gets here; the thread goes on with the next event.
      service_.log_line(std::string("an I/O event failed: ") + exception.what());
    }
  }
}

void IoThread::adopt(Accepted accepted) {
  boost::asio::post(io_, [this, accepted = std::move(accepted)]() mutable {
    if (is_stopped_) return;
    counters_.add(Counters::kConnectionsAccepted);
    if (accepted.is_surplus) counters_.add(Counters::kSurplusConnections);
    counters_.add(Counters::kConnectionsOpen);
    auto connection = std::make_shared<Connection>(*this, std::move(accepted));
    connections_.emplace(connection.get(), connection);
    connection->start();
  });
}

void IoThread::drain() {
  boost::asio::post(io_, [this] {
    const auto connections = connections_;
    for (const auto& [raw, connection] : connections) connection->drain();
  });
}

void IoThread::stop() {
  boost::asio::post(io_, [this] { close_all(); });
}

void IoThread::join() {
  if (thread_.joinable()) thread_.join();
}

void IoThread::close_all() {
  is_stopped_ = true;
  const auto connections = connections_;
  for (const auto& [raw, connection] : connections) connection->close();
  // Handlers that finish later find their channels detached; nobody needs to be told.
  mailbox_->close();
  timer_.cancel();
  guard_.reset();
}

void IoThread::remove(Connection& connection) {
  counters_.subtract(Counters::kConnectionsOpen);
  deadlines_.remove(connection.deadline());
  connections_.erase(&connection);
}

void IoThread::answer_ready_channels() {
  mailbox_->take_all(ready_);
  // What belongs to thousands of streams is in no cache (docs/decisions/0009).
  use_each_prefetched(
      std::span<const std::shared_ptr<ResponseChannel>>(ready_),
      ResponseChannel::kNumPrefetchSteps,
      [](const auto& channel, size_t step) { channel->prefetch(step); },
      [this](const auto& channel) { answer(*channel); }
  );
  ready_.clear();
  if (scratch_.capacity() > kBufferCapacityMax) std::string().swap(scratch_);
}

void IoThread::answer(ResponseChannel& channel) {
  if (channel.connection() == nullptr) return;
  const auto connection = channel.connection()->shared_from_this();
  connection->on_channel_ready();
}

void IoThread::return_output(std::string& out) {
  out.clear();
  if (spare_output_.capacity() < out.capacity() && out.capacity() <= kBufferCapacityMax) {
    out.swap(spare_output_);
  }
  std::string().swap(out);
}

void IoThread::set_deadline(Deadline& deadline, TimePoint at) {
  deadlines_.set(deadline, at);
  if (!timer_at_ || *deadlines_.next() < *timer_at_) arm_timer();
}

void IoThread::arm_timer() {
  timer_at_ = deadlines_.next();
  if (!timer_at_ || is_stopped_) return;
  timer_.expires_at(*timer_at_ + kTimerSlack);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) expire_deadlines();
  });
}

void IoThread::expire_deadlines() {
  timer_at_.reset();
  std::vector<std::shared_ptr<Connection>> expired;
  for (Connection* connection : deadlines_.take_expired(Clock::now())) {
    expired.push_back(connection->shared_from_this());
  }
  for (const auto& connection : expired) connection->on_deadline();
  if (!timer_at_) arm_timer();
}

std::string_view IoThread::date() {
  const std::time_t now = std::time(nullptr);
  if (date_second_ != now) {
    date_second_ = now;
    date_ = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
  }
  return date_;
}

std::string IoThread::next_request_id() {
  return fmt::format(
      "req-{:016x}{:08x}", random_bits(seed_, num_request_ids_++), static_cast<uint32_t>(seed_)
  );
}

}  // namespace millrace::http
