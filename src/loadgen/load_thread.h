// One thread of the load generator: its reactor, its share of the connections, and its clock. Sends
// what is due, reads what comes, and records both.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "loadgen/live_samples.h"
#include "loadgen/load_connection.h"
#include "loadgen/load_control.h"
#include "loadgen/request_feed.h"

namespace millrace::bench {

// What the threads of a load share; all outlive them.
struct LoadShared {
  const Endpoint& endpoint;
  const RequestWriter& writer;
  LoadControl& control;
  ExchangeOptions exchange;
  std::chrono::milliseconds connect_timeout{0};
  std::chrono::milliseconds request_timeout{0};
  // Whether a request that was due and never sent has a record.
  bool records_unsent = true;
  bool samples_live = false;
};

// Counted by one thread, read by any.
struct LoadCounters {
  std::atomic<int64_t> num_sent = 0;
  std::atomic<int64_t> num_completed = 0;
  std::atomic<int64_t> num_failed = 0;
  std::atomic<int64_t> num_unfinished = 0;
  std::atomic<int64_t> num_output_tokens = 0;
  std::atomic<int64_t> num_connections = 0;  // that were opened; of every phase
};

// A place of the concurrency, and when it begins to be used.
struct SlotStart {
  int32_t slot = 0;
  Nanos at{0};
};

class LoadThread final : private ConnectionOwner {
 public:
  LoadThread(const LoadShared& shared, int32_t index);
  // Ends the thread; what is under way is dropped without a record.
  ~LoadThread() override;

  // kInternal: the machine gives no thread.
  Result<void> start();

  // Phases, from any thread; each releases the holds it was begun with as it is done.
  // One hold for each connection.
  void open_connections(int64_t num);
  // No more of it: its holds are released.
  void stop_opening();
  // Closed loop: one hold for each slot. Times are from `zero`.
  void begin_slots(RequestFeed& feed, TimePoint zero, std::vector<SlotStart> slots);
  // Open loop: one hold, and one for each session under way.
  void begin_arrivals(RequestFeed& feed, TimePoint zero);
  // After LoadControl::end(): lets go of what has not been sent.
  void drain();
  // Ends what is under way: its records are kUnfinished.
  void cut();

  // From any thread: what has ended since the last call.
  void take_records(std::vector<RequestRecord>& out);
  const LoadCounters& counters() const { return counters_; }
  LiveSamples& live_samples() { return live_samples_; }
  // Processor time since the start, without what was spent on watching the clock.
  double cpu_seconds();

 private:
  // What is to be done at a time: exactly one of these.
  struct Alarm {
    std::unique_ptr<SessionRun> run;        // a later turn
    std::optional<SlotStart> slot;          // its next session
    bool pulls_arrival = false;             // the feed had none ready
    std::weak_ptr<LoadConnection> opening;  // its time to connect is over
    int64_t opening_number = 0;
  };

  // Of an exchange, what its session goes on with.
  struct Ending {
    Nanos ended{0};
    bool is_completed = false;
    bool was_refused = false;  // no connection
    std::string answer;        // where a later turn repeats it
  };

  void on_open(LoadConnection& connection) override;
  void on_sending(LoadConnection& connection, TimePoint now) override;
  void on_bytes(LoadConnection& connection, std::string_view bytes, TimePoint now) override;
  void on_closed(LoadConnection& connection, const ConnectionFailure& failure) override;

  void run();
  void watch_for_due();
  std::optional<TimePoint> next_due() const;
  void post(std::function<void()> task);
  Nanos since_zero(TimePoint at) const { return at - zero_; }

  void run_slot(const SlotStart& slot);
  void pull_arrival();
  void send_due_arrivals();
  void arrive(std::unique_ptr<SessionRun> run);
  void start(std::unique_ptr<SessionRun> run);
  void take_next_waiting();
  void go_on(std::unique_ptr<SessionRun> run, const Ending& ending);
  bool word_next_turn(SessionRun& run, std::string_view answer) const;
  void end_session(const SessionRun& run, const Ending& ending);
  void drop(std::unique_ptr<SessionRun> run);
  void record_unsent(const SessionRun& run);

  void open_one(std::shared_ptr<LoadConnection> connection);
  void open_ahead();
  std::shared_ptr<LoadConnection> make_connection(ConnectionList& list);
  void move_to(LoadConnection& connection, ConnectionList& list);
  static void remove(LoadConnection& connection);
  void finish(LoadConnection& connection);
  void sample(const RequestRecord& record, std::optional<Nanos> last_token, int64_t num_tokens);

  void settle();
  void do_ready();
  void ring(Alarm alarm);
  void ring_alarms(TimePoint now);
  void expire_requests(TimePoint now);
  void set_alarm(TimePoint at, Alarm alarm) { alarms_.emplace(at, std::move(alarm)); }
  void arm_timer();

  const LoadShared shared_;
  const int32_t index_;
  boost::asio::io_context io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guard_;
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> timer_at_;
  std::vector<char> buffer_;  // of any one read
  EventReader reader_;

  RequestFeed* feed_ = nullptr;  // of the phase
  bool is_closed_loop_ = false;
  TimePoint zero_;
  bool is_pulling_ = false;  // open loop: the source's hold is ours
  std::unique_ptr<SessionRun> next_arrival_;
  std::multimap<TimePoint, Alarm> alarms_;
  std::deque<Alarm> ready_;  // to be done before this thread sleeps again

  ConnectionList opening_;  // ahead, without a request
  ConnectionList idle_;     // the last used first
  ConnectionList busy_;     // in the order of their deadlines
  int64_t num_to_open_ = 0;
  bool holds_for_opening_ = false;  // each connection that is opened ahead has a hold
  bool is_settling_ = false;

  std::mutex outbox_mutex_;
  std::vector<RequestRecord> outbox_;  // guarded by it
  LoadCounters counters_;
  LiveSamples live_samples_;
  int64_t num_sample_reads_ = 0;
  std::atomic<int64_t> idle_ns_{0};  // spent on watching the clock
  std::thread thread_;
};

}  // namespace millrace::bench
