// The thread that watches a load while it runs: gathers the records, shows progress, and asks
// whether the figures are precise enough. It touches what the load threads measure with only for a
// moment.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "loadgen/load.h"
#include "loadgen/load_control.h"
#include "loadgen/load_thread.h"
#include "loadgen/request_feed.h"

namespace millrace::bench {

struct MonitoredLoad {
  const LoadOptions& options;
  LoadControl& control;
  RequestFeed& feed;
  std::span<const std::unique_ptr<LoadThread>> threads;
  TimePoint zero;
};

class LoadMonitor {
 public:
  // What `load` refers to outlives the monitor.
  explicit LoadMonitor(const MonitoredLoad& load);
  ~LoadMonitor();

  // kInternal: the machine gives no thread.
  Result<void> start();
  // Ends the thread and gives all records so far, in the order of their ends. REQUIRES: nothing is
  // under way any more.
  std::vector<RequestRecord> finish();

 private:
  void run(const std::stop_token& stop);
  void gather();
  void show_progress();
  void ask_precise();

  MonitoredLoad load_;
  std::vector<RequestRecord> records_;
  TimePoint next_question_;
  std::vector<double> ttft_ms_, itl_ms_;
  // What was counted before the phase, in warm-up.
  int64_t num_sent_before_ = 0, num_completed_before_ = 0, num_failed_before_ = 0,
          num_unfinished_before_ = 0, num_tokens_before_ = 0;
  std::jthread thread_;
};

}  // namespace millrace::bench
