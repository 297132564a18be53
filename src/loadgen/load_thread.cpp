#include "loadgen/load_thread.h"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/post.hpp>
#include <ctime>
#include <system_error>
#include <utility>

#include "http/transport.h"

namespace millrace::bench {
namespace {

// A read takes what a socket's buffer commonly holds, and stays in the core's own cache.
constexpr size_t kReadBytes = size_t{128} << 10;
// When the feed has nothing ready: the builder is behind, and records show it as lag.
constexpr std::chrono::microseconds kFeedRetry{200};
// A refused slot tries the next request after this long, not in a hot loop.
constexpr std::chrono::milliseconds kRefusedPause{100};
// So that answers are read while a burst is sent.
constexpr int kArrivalsAtOnce = 64;

// More than a timer is late by in 99 of 100 cases (38 us on an idle virtual machine).
constexpr std::chrono::microseconds kWakesEarly{60};

}  // namespace

LoadThread::LoadThread(const LoadShared& shared, int32_t index)
    : shared_(shared), index_(index), io_(1), timer_(io_), buffer_(kReadBytes) {}

LoadThread::~LoadThread() {
  if (!thread_.joinable()) return;
  guard_.reset();
  io_.stop();
  thread_.join();
}

Result<void> LoadThread::start() {
  guard_.emplace(io_.get_executor());
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kInternal, fmt::format("cannot start a thread: {}", error.what())};
  }
  return {};
}

void LoadThread::run() {
  ::pthread_setname_np(::pthread_self(), fmt::format("load-{}", index_).c_str());
  const http::SigpipeBlock block;
  while (io_.run_one() != 0) watch_for_due();
}

// A thread that sleeps until a request is due sends it 20 to 60 us late. So the timer wakes it
// early, and it looks at the clock and the sockets until then.
void LoadThread::watch_for_due() {
  for (;;) {
    const std::optional<TimePoint> due = next_due();
    const TimePoint now = Clock::now();
    if (!due || *due - now > kWakesEarly || io_.stopped()) return;
    if (*due <= now) {
      settle();
      if (next_due() == due) return;  // as many as are done at once: what can be read comes first
    } else if (io_.poll() == 0) {
      idle_ns_.fetch_add((Clock::now() - now).count(), std::memory_order_relaxed);
    }
  }
}

std::optional<TimePoint> LoadThread::next_due() const {
  std::optional<TimePoint> due;
  if (next_arrival_ != nullptr) due = zero_ + next_arrival_->due;
  if (!alarms_.empty() && (!due || alarms_.begin()->first < *due)) due = alarms_.begin()->first;
  return due;
}

void LoadThread::post(std::function<void()> task) {
  boost::asio::post(io_, [this, task = std::move(task)] {
    task();
    settle();
  });
}

double LoadThread::cpu_seconds() {
  clockid_t clock = {};
  timespec time = {};
  if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return 0.0;
  ::clock_gettime(clock, &time);
  const auto idle = static_cast<double>(idle_ns_.load(std::memory_order_relaxed));
  return static_cast<double>(time.tv_sec) + 1e-9 * (static_cast<double>(time.tv_nsec) - idle);
}

void LoadThread::take_records(std::vector<RequestRecord>& out) {
  std::vector<RequestRecord> taken;
  {
    const std::lock_guard lock(outbox_mutex_);
    taken.swap(outbox_);
  }
  out.insert(
      out.end(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())
  );
}

void LoadThread::open_connections(int64_t num) {
  post([this, num] {
    num_to_open_ = num;
    holds_for_opening_ = true;
    open_ahead();
  });
}

void LoadThread::stop_opening() {
  post([this] {
    if (!std::exchange(holds_for_opening_, false)) return;
    const auto num = static_cast<int64_t>(opening_.size()) + std::exchange(num_to_open_, 0);
    for (int64_t i = 0; i < num; ++i) shared_.control.release_hold();
  });
}

void LoadThread::begin_slots(RequestFeed& feed, TimePoint zero, std::vector<SlotStart> slots) {
  post([this, &feed, zero, slots = std::move(slots)] {
    feed_ = &feed;
    zero_ = zero;
    is_closed_loop_ = true;
    for (const SlotStart& slot : slots) set_alarm(zero + slot.at, {.slot = slot});
  });
}

void LoadThread::begin_arrivals(RequestFeed& feed, TimePoint zero) {
  post([this, &feed, zero] {
    feed_ = &feed;
    zero_ = zero;
    is_closed_loop_ = false;
    is_pulling_ = true;
    pull_arrival();
  });
}

void LoadThread::drain() {
  post([this] {
    if (is_pulling_) {
      is_pulling_ = false;
      if (next_arrival_ != nullptr) record_unsent(*next_arrival_);
      next_arrival_.reset();
      shared_.control.release_hold();
    }
    std::multimap<TimePoint, Alarm> alarms;
    alarms.swap(alarms_);
    for (auto& [at, alarm] : alarms) {
      if (alarm.run != nullptr || alarm.slot) {
        shared_.control.release_hold();
      } else if (!alarm.pulls_arrival) {
        set_alarm(at, std::move(alarm));
      }
    }
  });
}

void LoadThread::cut() {
  post([this] {
    while (!busy_.empty()) {
      LoadConnection& connection = *busy_.front();
      connection.exchange.cut(since_zero(Clock::now()));
      connection.close();
      finish(connection);
    }
  });
}

// Closed loop: the slot's next session.
void LoadThread::run_slot(const SlotStart& slot) {
  const TimePoint now = Clock::now();
  if (!shared_.control.is_open(now)) return shared_.control.release_hold();
  RequestFeed::Taken taken = feed_->take();
  if (taken.run == nullptr) {
    if (taken.is_exhausted) return shared_.control.release_hold();
    return set_alarm(now + kFeedRetry, {.slot = slot});
  }
  taken.run->slot = slot.slot;
  taken.run->scheduled = slot.at;
  taken.run->admitted = since_zero(now);
  start(std::move(taken.run));
}

// Open loop: the next session of the schedule becomes ours to send in time.
void LoadThread::pull_arrival() {
  if (!is_pulling_ || next_arrival_ != nullptr) return;
  RequestFeed::Taken taken = feed_->take();
  const std::optional<TimePoint> end = shared_.control.end_time();
  const bool is_late = taken.run != nullptr && end && zero_ + taken.run->due >= *end;
  if (taken.is_exhausted || is_late) {
    is_pulling_ = false;
    if (is_late) shared_.control.note_left_out();
    return shared_.control.release_hold();
  }
  if (taken.run == nullptr) return set_alarm(Clock::now() + kFeedRetry, {.pulls_arrival = true});
  next_arrival_ = std::move(taken.run);
}

void LoadThread::send_due_arrivals() {
  for (int i = 0; next_arrival_ != nullptr; ++i) {
    if (zero_ + next_arrival_->due > Clock::now()) return;
    if (i == kArrivalsAtOnce) return;  // the timer comes back at once, behind what can be read
    std::unique_ptr<SessionRun> run = std::move(next_arrival_);
    run->scheduled = run->due;
    shared_.control.add_hold();
    arrive(std::move(run));
    pull_arrival();
  }
}

// Open loop: a turn whose time has come.
void LoadThread::arrive(std::unique_ptr<SessionRun> run) {
  if (!shared_.control.is_open(Clock::now())) return drop(std::move(run));
  switch (shared_.control.take_place(run, zero_)) {
    case LoadControl::Place::kTaken:
      return start(std::move(run));
    case LoadControl::Place::kQueued:
      return;
    case LoadControl::Place::kNoneAnyMore:
      return drop(std::move(run));
  }
}

// Whose time came, and the end with it.
void LoadThread::drop(std::unique_ptr<SessionRun> run) {
  if (!is_closed_loop_) record_unsent(*run);
  shared_.control.release_hold();
}

void LoadThread::record_unsent(const SessionRun& run) {
  const Nanos now = since_zero(Clock::now());
  SessionRun due_run = run;
  if (run.turn == 0) due_run.scheduled = run.due;
  if (!shared_.records_unsent || due_run.scheduled > now) return;
  const std::lock_guard lock(outbox_mutex_);
  outbox_.push_back(unsent_record(due_run, now));
}

// REQUIRES: it is admitted.
void LoadThread::start(std::unique_ptr<SessionRun> run) {
  std::shared_ptr<LoadConnection> connection;
  if (!idle_.empty()) {
    connection = idle_.front();
    move_to(*connection, busy_);
  } else {
    connection = make_connection(busy_);
  }
  connection->deadline = Clock::now() + shared_.request_timeout;
  connection->exchange.start(std::move(run));
  if (connection->is_open()) {
    connection->send(connection->exchange.request_bytes());
  } else {
    open_one(connection);
  }
}

// The exchange of a connection has ended.
void LoadThread::finish(LoadConnection& connection) {
  const std::shared_ptr<LoadConnection> self = *connection.place;
  Exchange& exchange = connection.exchange;
  std::string answer = exchange.answer_text();
  std::unique_ptr<SessionRun> run = exchange.release();
  RequestRecord record = std::move(exchange.record());
  if (connection.is_open() && exchange.leaves_connection_usable()) {
    move_to(connection, idle_);
  } else {
    connection.close();
    remove(connection);
  }
  const auto count = [](std::atomic<int64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  };
  count(
      record.outcome == Outcome::kCompleted ? counters_.num_completed
      : record.outcome == Outcome::kFailed  ? counters_.num_failed
                                            : counters_.num_unfinished
  );
  shared_.control.note_ended(record, zero_ + record.ended);
  if (run->has_later_turn() && !shared_.exchange.keeps_texts) record.text.clear();
  const Ending ending{
      .ended = record.ended,
      .is_completed = record.outcome == Outcome::kCompleted,
      .was_refused = record.failure == FailureKind::kConnect ||
                     record.failure == FailureKind::kTls ||
                     record.failure == FailureKind::kClientLimit,
      .answer = std::move(answer),
  };
  {
    // Before its hold is released: who waits for the last hold takes the records.
    const std::lock_guard lock(outbox_mutex_);
    outbox_.push_back(std::move(record));
  }
  go_on(std::move(run), ending);
}

void LoadThread::go_on(std::unique_ptr<SessionRun> run, const Ending& ending) {
  const bool goes_on = ending.is_completed && run->has_later_turn() &&
                       shared_.control.is_open(Clock::now()) && word_next_turn(*run, ending.answer);
  if (!goes_on) return end_session(*run, ending);
  run->scheduled = ending.ended + run->request().think_time;
  if (!is_closed_loop_) take_next_waiting();
  const TimePoint at = zero_ + run->scheduled;
  set_alarm(at, {.run = std::move(run)});
}

bool LoadThread::word_next_turn(SessionRun& run, std::string_view answer) const {
  ++run.turn;
  run.conversation.add_answer(answer);
  PlannedRequest& request = run.plan.turns[static_cast<size_t>(run.turn)];
  if (!run.conversation.add_prompt(request.prompt)) return false;
  run.bytes = shared_.writer.write(run.conversation, request.num_output_tokens);
  return true;
}

void LoadThread::end_session(const SessionRun& run, const Ending& ending) {
  if (is_closed_loop_) {
    SlotStart slot{.slot = run.slot.value_or(0), .at = ending.ended};
    if (!ending.was_refused) {
      return ready_.push_back({.slot = slot});
    }
    slot.at += kRefusedPause;
    return set_alarm(zero_ + slot.at, {.slot = slot});
  }
  take_next_waiting();
  shared_.control.release_hold();
}

// Open loop: a place is free.
void LoadThread::take_next_waiting() {
  std::unique_ptr<SessionRun> next = shared_.control.release_place(zero_);
  if (next == nullptr) return;
  ready_.push_back({.run = std::move(next)});
}

// What every event ends with: all that can be done now is done, and the timer is set for the rest.
void LoadThread::settle() {
  if (is_settling_) return;
  is_settling_ = true;
  const TimePoint now = Clock::now();
  expire_requests(now);
  ring_alarms(now);
  do_ready();
  send_due_arrivals();
  do_ready();
  is_settling_ = false;
  arm_timer();
}

void LoadThread::do_ready() {
  while (!ready_.empty()) {
    Alarm alarm = std::move(ready_.front());
    ready_.pop_front();
    if (alarm.slot) {
      run_slot(*alarm.slot);
    } else {
      start(std::move(alarm.run));  // it was admitted when it was put there
    }
  }
}

void LoadThread::ring_alarms(TimePoint now) {
  while (!alarms_.empty() && alarms_.begin()->first <= now) {
    Alarm alarm = std::move(alarms_.begin()->second);
    alarms_.erase(alarms_.begin());
    ring(std::move(alarm));
  }
}

void LoadThread::ring(Alarm alarm) {
  if (alarm.slot) return run_slot(*alarm.slot);
  if (alarm.pulls_arrival) return pull_arrival();
  if (alarm.run == nullptr) {
    const std::shared_ptr<LoadConnection> connection = alarm.opening.lock();
    const bool is_late = connection != nullptr && !connection->is_open() &&
                         connection->num_openings() == alarm.opening_number;
    if (is_late) {
      const double seconds = std::chrono::duration<double>(shared_.connect_timeout).count();
      connection->fail(
          {FailureKind::kConnect,
           fmt::format(
               "cannot connect to {}: no answer within {} s", shared_.endpoint.text(), seconds
           )}
      );
    }
    return;
  }
  if (!is_closed_loop_) return arrive(std::move(alarm.run));
  const TimePoint now = Clock::now();
  if (!shared_.control.is_open(now)) return drop(std::move(alarm.run));
  alarm.run->admitted = since_zero(now);
  start(std::move(alarm.run));
}

void LoadThread::expire_requests(TimePoint now) {
  while (!busy_.empty() && busy_.front()->deadline <= now) {
    LoadConnection& connection = *busy_.front();
    const double seconds = std::chrono::duration<double>(shared_.request_timeout).count();
    connection.exchange.fail(
        FailureKind::kTimeout, fmt::format("no whole answer within {} s", seconds), since_zero(now)
    );
    connection.close();
    finish(connection);
  }
}

void LoadThread::arm_timer() {
  std::optional<TimePoint> at = next_due();
  if (at) *at -= kWakesEarly;
  if (!busy_.empty() && (!at || busy_.front()->deadline < *at)) at = busy_.front()->deadline;
  if (!at || (timer_at_ && *timer_at_ <= *at)) return;
  timer_at_ = at;
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;  // another time was set
    timer_at_.reset();
    settle();
  });
}

}  // namespace millrace::bench
