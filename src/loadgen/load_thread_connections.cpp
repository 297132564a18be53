// The connections of a load thread: opening, what they say, and where they are kept.
#include <utility>

#include "loadgen/load_thread.h"

namespace millrace::bench {
namespace {

constexpr size_t kOpeningsAtOnce = 64;
// One read in so many gives a sample to the progress display.
constexpr int64_t kReadsPerSample = 8;

void add(std::atomic<int64_t>& counter, int64_t num) {
  counter.store(counter.load(std::memory_order_relaxed) + num, std::memory_order_relaxed);
}

}  // namespace

std::shared_ptr<LoadConnection> LoadThread::make_connection(ConnectionList& list) {
  auto connection = std::make_shared<LoadConnection>(
      io_, shared_.endpoint, static_cast<ConnectionOwner&>(*this), buffer_, shared_.exchange
  );
  connection->list = &list;
  connection->place = list.insert(list.end(), connection);
  return connection;
}

// To the end of the busy ones, whose deadlines ascend; to the front of the idle ones.
void LoadThread::move_to(LoadConnection& connection, ConnectionList& list) {
  connection.was_idle = connection.list == &idle_;
  list.splice(&list == &busy_ ? list.end() : list.begin(), *connection.list, connection.place);
  connection.list = &list;
}

// The list may have been its last owner.
void LoadThread::remove(LoadConnection& connection) {
  std::exchange(connection.list, nullptr)->erase(connection.place);
}

void LoadThread::open_one(std::shared_ptr<LoadConnection> connection) {
  connection->open();
  if (!connection->is_opening()) return;
  set_alarm(
      Clock::now() + shared_.connect_timeout,
      {.opening = connection, .opening_number = connection->num_openings()}
  );
}

void LoadThread::open_ahead() {
  while (num_to_open_ > 0 && opening_.size() < kOpeningsAtOnce) {
    --num_to_open_;
    open_one(make_connection(opening_));
  }
}

void LoadThread::on_open(LoadConnection& connection) {
  add(counters_.num_connections, 1);
  shared_.control.note_sign_of_life();
  if (connection.exchange.is_active()) {
    connection.send(connection.exchange.request_bytes());
  } else {
    move_to(connection, idle_);
    if (holds_for_opening_) shared_.control.release_hold();
    open_ahead();
  }
  settle();
}

void LoadThread::on_sending(LoadConnection& connection, TimePoint now) {
  if (connection.exchange.note_sent(since_zero(now))) add(counters_.num_sent, 1);
}

void LoadThread::on_bytes(LoadConnection& connection, std::string_view bytes, TimePoint now) {
  Exchange& exchange = connection.exchange;
  shared_.control.note_sign_of_life();
  if (!exchange.is_active()) {
    // Nobody asked: whatever it is, no answer of ours can follow it.
    connection.close();
    return remove(connection);
  }
  const std::optional<Nanos> last_token = exchange.record().last_token;
  const bool has_ended = exchange.take(bytes, since_zero(now), reader_);
  if (const int64_t num = exchange.take_num_new_tokens(); num > 0) {
    add(counters_.num_output_tokens, num);
    if (shared_.samples_live) sample(exchange.record(), last_token, num);
  }
  if (!has_ended) return;
  finish(connection);
  settle();
}

void LoadThread::on_closed(LoadConnection& connection, const ConnectionFailure& failure) {
  Exchange& exchange = connection.exchange;
  if (!exchange.is_active()) {
    const bool was_ahead = connection.list == &opening_;
    remove(connection);
    if (!was_ahead || !holds_for_opening_) return;
    // The requests will say why; there is no use in more of it now.
    for (int64_t i = std::exchange(num_to_open_, 0); i >= 0; --i) shared_.control.release_hold();
    return;
  }
  const bool is_stale =
      connection.was_idle && !exchange.has_answer() && failure.kind == FailureKind::kClosed;
  if (is_stale) {
    // The server ended an idle connection just as it was used: the request counts as not yet sent.
    connection.was_idle = false;
    open_one(*connection.place);
    return settle();
  }
  const Nanos now = since_zero(Clock::now());
  if (failure.kind == FailureKind::kClosed) {
    exchange.end_of_connection(now, failure.message, reader_);
  } else {
    exchange.fail(failure.kind, failure.message, now);
  }
  finish(connection);
  settle();
}

void LoadThread::sample(
    const RequestRecord& record, std::optional<Nanos> last_token, int64_t num_tokens
) {
  if (!record.first_token || !record.last_token) return;
  if (!last_token) {
    live_samples_.add_ttft(*record.last_token, *record.first_token - record.sent);
  } else if (++num_sample_reads_ % kReadsPerSample == 0) {
    live_samples_.add_itl(*record.last_token, (*record.last_token - *last_token) / num_tokens);
  }
}

}  // namespace millrace::bench
