#include "loadgen/clean_point.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::bench {
namespace {

using UnixTime = std::chrono::sys_time<Nanos>;

UnixTime unix_now() {
  return std::chrono::time_point_cast<Nanos>(std::chrono::system_clock::now());
}

// Samples the server at an interval, on a thread of its own, from construction to stop(). The load
// has a clock of its own, which is known only in the end, so times are the wall clock's until then.
class ServerWatch {
 public:
  ServerWatch(ServerProbe& probe, std::chrono::milliseconds interval)
      : probe_(probe), interval_(interval) {
    take_sample();
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  // The samples with times since `zero`; the last is of now.
  std::vector<ServerSample> stop(UnixTime zero) {
    thread_.request_stop();
    thread_.join();
    take_sample();
    for (ServerSample& sample : samples_) sample.at -= zero.time_since_epoch();
    return std::move(samples_);
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, interval_, [&] { return stop.stop_requested(); })) {
      take_sample();
    }
  }

  void take_sample() { samples_.push_back(probe_.sample(unix_now().time_since_epoch())); }

  ServerProbe& probe_;
  const std::chrono::milliseconds interval_;
  std::vector<ServerSample> samples_;  // the thread's, until it is joined
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace

Result<PointRecord> measure_clean_point(
    const Target& target,
    ServerProbe& probe,
    const Dataset& dataset,
    const CleanPointOptions& options,
    std::stop_token stop
) {
  if (options.reads_metrics) (void)probe.wait_idle(options.idle_timeout, stop);
  if (options.flushes_cache && !probe.flush_cache()) {
    return unsupported(
        "the server has neither /flush_cache nor /reset_prefix_cache", "--flush-cache"
    );
  }
  std::optional<ServerWatch> watch;
  if (options.reads_metrics) watch.emplace(probe, options.sample_interval);
  Result<LoadResult> load = run_load(target, dataset, options.load, std::move(stop));
  if (!load) return load.error();

  PointRecord record;
  record.plan = options.plan;
  if (!options.load.num_sessions) {
    record.plan.num_prompts =
        num_sessions_from(dataset, options.load.first_session).value_or(record.plan.num_prompts);
  }
  record.started_unix_ns = load->started_unix_ns;
  record.first_dispatch = load->first_dispatch;
  record.finished = load->finished;
  record.stop_reason = load->stop_reason;
  record.requests = std::move(load->requests);
  record.client = load->client;
  if (watch) record.server = watch->stop(UnixTime(Nanos(load->started_unix_ns)));
  return record;
}

}  // namespace millrace::bench
