#include "loadgen/mock/mock_state.h"

#include <array>
#include <utility>

#include "base/metrics.h"

namespace millrace::bench {
namespace {

// 128 MB.
constexpr size_t kNumTimesMax = size_t{16} << 20;

}  // namespace

std::optional<int64_t> MockState::take_number() {
  const int64_t number = num_requests_.fetch_add(1, std::memory_order_relaxed);
  if (!options_.dies_after || number < *options_.dies_after) return number;
  num_requests_.store(*options_.dies_after, std::memory_order_relaxed);
  return std::nullopt;
}

void MockState::note_end(const MockAnswer& answer) {
  add(num_prompt_tokens_, answer.num_prompt_tokens());
  add(num_cached_tokens_, answer.num_cached_tokens());
  if (answer.state() == MockAnswer::State::kWhole) add(num_finished_, 1);
}

void MockState::keep_times(int64_t number, MockTimes times) {
  const std::lock_guard lock(times_mutex_);
  if (num_times_ + times.tokens.size() > kNumTimesMax) return;
  num_times_ += times.tokens.size();
  times_.emplace(number, std::move(times));
}

std::optional<MockTimes> MockState::times(int64_t number) const {
  const std::lock_guard lock(times_mutex_);
  const auto found = times_.find(number);
  if (found == times_.end()) return std::nullopt;
  return found->second;
}

std::string MockState::metrics() const {
  const MockTurns::Counts counts = turns_.counts();
  const std::array labels = {MetricLabel{"model_name", options_.model}};
  MetricsWriter w(labels);
  const auto read = [](const std::atomic<int64_t>& value) {
    return value.load(std::memory_order_relaxed);
  };
  w.gauge(
      "vllm:num_requests_running", "Answers under way.", static_cast<double>(counts.num_running)
  );
  w.gauge(
      "vllm:num_requests_waiting",
      "Requests that wait for their turn.",
      static_cast<double>(counts.num_waiting)
  );
  if (options_.max_concurrency) {
    w.gauge(
        "vllm:kv_cache_usage_perc",
        "Share of the places that are taken, 0 to 1: it has no cache.",
        static_cast<double>(counts.num_running) / static_cast<double>(*options_.max_concurrency)
    );
  }
  const int64_t num_prompt_tokens = read(num_prompt_tokens_);
  w.counter("vllm:prompt_tokens_total", "Prompt tokens of answers that ended.", num_prompt_tokens);
  w.counter("vllm:generation_tokens_total", "Tokens sent.", read(num_output_tokens_));
  w.counter("vllm:num_preemptions_total", "It never preempts.", 0);
  w.counter(
      "vllm:prefix_cache_queries_total", "Prompt tokens of answers that ended.", num_prompt_tokens
  );
  w.counter(
      "vllm:prefix_cache_hits_total", "Those that usage calls cached.", read(num_cached_tokens_)
  );
  w.counter("vllm:request_success_total", "Answers that left whole.", read(num_finished_));
  w.counter(
      "millrace_mock:cache_flushes_total", "Requests to flush the cache.", read(num_flushes_)
  );
  return w.take();
}

}  // namespace millrace::bench
