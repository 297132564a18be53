// What the server's handlers share: the model once it is loaded, and in which phase of its life the
// server is. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "http/counters.h"
#include "server/api_keys.h"
#include "server/engine_watchdog.h"
#include "server/health.h"
#include "server/process_metrics.h"
#include "server/serving.h"

namespace millrace {

class ApiState {
 public:
  ApiState(ApiKeys keys, std::string version, Duration stall_timeout, Log& log)
      : keys_(std::move(keys)),
        version_(std::move(version)),
        stall_timeout_(stall_timeout),
        log_(log),
        process_metrics_(version_) {}

  // Null while the model is loading. Handlers of routes that need it run only afterwards: the guard
  // refuses them until then.
  Serving* serving() const { return serving_.load(std::memory_order_acquire); }
  void serve(std::unique_ptr<Serving> serving);

  ServerPhase phase() const { return phase_.load(); }
  void begin_drain() { phase_ = ServerPhase::kDraining; }

  Health health() const;
  // Prometheus's text: the process and its HTTP side, and the model's once it is loaded.
  std::string metrics_text(const http::CountersSnapshot& counters) const;
  const ApiKeys& keys() const { return keys_; }
  const std::string& version() const { return version_; }
  Log& log() const { return log_; }
  // The engine thread's.
  http::WakeBatch& wakes() { return wakes_; }

 private:
  const ApiKeys keys_;
  const std::string version_;
  const Duration stall_timeout_;
  Log& log_;
  const ProcessMetrics process_metrics_;
  http::WakeBatch wakes_;
  std::unique_ptr<Serving> owned_;
  std::unique_ptr<EngineWatchdog> watchdog_;
  std::atomic<Serving*> serving_ = nullptr;
  std::atomic<ServerPhase> phase_ = ServerPhase::kStarting;
};

}  // namespace millrace
