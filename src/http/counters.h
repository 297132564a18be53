// What the HTTP layer counts, for the metrics above it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>

namespace millrace::http {

// A reading of all counters since the server started. The parts are read one after the other, not
// at one instant.
struct CountersSnapshot {
  uint64_t num_connections_open = 0;  // a gauge
  uint64_t num_streams_open = 0;      // a gauge
  uint64_t num_connections_accepted = 0;
  uint64_t num_surplus_connections = 0;  // accepted beyond the maximum, or on a reserved descriptor
  uint64_t num_accept_pauses = 0;
  uint64_t num_clients_gone = 0;  // left before their answer was finished
  uint64_t num_streams_cut = 0;   // read too slowly
  uint64_t num_timeouts = 0;      // of head, body or write
  uint64_t num_bytes_received = 0;
  uint64_t num_bytes_sent = 0;
  std::map<int, uint64_t> num_responses;  // by status
};

// One per I/O thread, which alone writes it; any thread reads.
class Counters {
 public:
  enum Name {
    kConnectionsOpen,
    kStreamsOpen,
    kConnectionsAccepted,
    kSurplusConnections,
    kAcceptPauses,
    kClientsGone,
    kStreamsCut,
    kTimeouts,
    kBytesReceived,
    kBytesSent,
    kNumNames
  };

  void add(Name name, uint64_t n = 1) { bump(values_[name], n); }
  void subtract(Name name) { bump(values_[name], ~uint64_t{0}); }
  void add_response(int status) {
    if (status >= kStatusMin && status <= kStatusMax) bump(responses_[index_of(status)], 1);
  }

  uint64_t read(Name name) const { return values_[name].load(std::memory_order_relaxed); }
  void add_to(CountersSnapshot& snapshot) const;

 private:
  static constexpr int kStatusMin = 100;
  static constexpr int kStatusMax = 599;
  static size_t index_of(int status) { return static_cast<size_t>(status - kStatusMin); }

  // One writer: no locked instruction is needed.
  static void bump(std::atomic<uint64_t>& value, uint64_t n) {
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kNumNames> values_ = {};
  std::array<std::atomic<uint64_t>, kStatusMax - kStatusMin + 1> responses_ = {};
};

}  // namespace millrace::http
