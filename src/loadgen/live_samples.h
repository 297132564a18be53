// The last times that a thread measured, for the progress display alone: bounded, so that nothing
// grows however long the load is.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

#include "results/request_record.h"

namespace millrace::bench {

// Thread-safe.
class LiveSamples {
 public:
  void add_ttft(Nanos at, Nanos value) { add(ttft_, at, value); }
  void add_itl(Nanos at, Nanos value) { add(itl_, at, value); }

  // Appends the values of samples not older than `since`, in milliseconds.
  void copy(Nanos since, std::vector<double>& ttft_ms, std::vector<double>& itl_ms) {
    const std::lock_guard lock(mutex_);
    copy(ttft_, since, ttft_ms);
    copy(itl_, since, itl_ms);
  }

 private:
  struct Sample {
    Nanos at{0};
    Nanos value{0};
  };
  struct Ring {
    std::array<Sample, 1024> samples;
    size_t num_added = 0;
  };

  void add(Ring& ring, Nanos at, Nanos value) {
    const std::lock_guard lock(mutex_);
    ring.samples[ring.num_added++ % ring.samples.size()] = {at, value};
  }
  static void copy(const Ring& ring, Nanos since, std::vector<double>& out) {
    const size_t num = std::min(ring.num_added, ring.samples.size());
    for (size_t i = 0; i < num; ++i) {
      const Sample& sample = ring.samples[i];
      if (sample.at < since) continue;
      out.push_back(std::chrono::duration<double, std::milli>(sample.value).count());
    }
  }

  std::mutex mutex_;
  Ring ttft_, itl_;  // guarded by it
};

}  // namespace millrace::bench
