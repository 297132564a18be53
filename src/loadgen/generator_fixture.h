// For tests of the whole generator: requests that can be told apart by the length of their answers,
// and what the mock server really did for each.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/load.h"
#include "loadgen/mock_server.h"
#include "loadgen/target.h"
#include "workload/dataset.h"

namespace millrace::bench {

// The request of turn t of session s asks for `num_tokens_least + s * num_turns + t` tokens, no
// other for as many; its prompt has `num_prompt_tokens` words. With `num_tokens` all ask for that.
struct NumberedDatasetOptions {
  int64_t num_tokens_least = 3;  // more than a probe's one
  std::optional<int64_t> num_tokens;
  int64_t num_prompt_tokens = 4;
  int64_t num_turns = 1;
  Nanos think_time{0};
};

class NumberedDataset final : public Dataset {
 public:
  explicit NumberedDataset(const NumberedDatasetOptions& options = {}) : options_(options) {}

  std::optional<size_t> size() const override { return std::nullopt; }

  Result<PlannedSession> session(size_t index) const override {
    PlannedSession session;
    for (int64_t turn = 0; turn < options_.num_turns; ++turn) {
      const int64_t number = static_cast<int64_t>(index) * options_.num_turns + turn;
      // A completions endpoint gets what was said before and this as one text.
      std::string text = fmt::format("{}w{}", turn == 0 ? "" : " ", number);
      for (int64_t i = 1; i < options_.num_prompt_tokens; ++i) text += " w7";
      PlannedRequest request;
      request.prompt = std::move(text);
      request.num_prompt_tokens = options_.num_prompt_tokens;
      request.num_output_tokens = options_.num_tokens.value_or(options_.num_tokens_least + number);
      request.think_time = options_.think_time;
      session.turns.push_back(std::move(request));
    }
    return session;
  }

 private:
  NumberedDatasetOptions options_;
};

inline std::unique_ptr<MockServer> must_start(const MockOptions& options) {
  Result<std::unique_ptr<MockServer>> server = MockServer::start(options);
  EXPECT_TRUE(server.ok()) << (server ? "" : server.error().message);
  return std::move(*server);
}

inline Target target_at(const std::string& url, Protocol protocol = Protocol::kCompletions) {
  const Result<http::BaseUrl> parsed = http::parse_base_url(url);
  EXPECT_TRUE(parsed.ok()) << url;
  Target target;
  target.url = *parsed;
  target.protocol = protocol;
  target.endpoint = protocol == Protocol::kChat       ? "/v1/chat/completions"
                    : protocol == Protocol::kGenerate ? "/generate"
                                                      : "/v1/completions";
  target.model = "mock";
  return target;
}

inline LoadResult must_run(
    const Target& target,
    const Dataset& dataset,
    const LoadOptions& options,
    const std::stop_token& stop = {}
) {
  Result<LoadResult> result = run_load(target, dataset, options, stop);
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message);
  return result ? *std::move(result) : LoadResult{};
}

inline LoadOptions closed_loop(int64_t concurrency, std::optional<int64_t> num_sessions) {
  LoadOptions options;
  options.load.kind = LoadKind::kConcurrency;
  options.load.max_concurrency = concurrency;
  options.num_sessions = num_sessions;
  return options;
}

inline LoadOptions open_loop(LoadKind kind, double rate, std::optional<int64_t> num_sessions) {
  LoadOptions options;
  options.load.kind = kind;
  options.load.request_rate = rate;
  options.num_sessions = num_sessions;
  options.seed = 11;
  return options;
}

// By the number of their tokens, of all answers that the mock gave whole.
inline std::map<int64_t, MockTimes> times_by_length(const MockServer& server) {
  std::map<int64_t, MockTimes> times;
  for (int64_t number = 0; number < server.num_requests(); ++number) {
    std::optional<MockTimes> actual = server.actual_times(number);
    if (!actual) continue;
    const auto length = static_cast<int64_t>(actual->tokens.size());
    EXPECT_TRUE(times.emplace(length, *std::move(actual)).second) << length << " tokens twice";
  }
  return times;
}

inline double to_ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Between neighbours, as numpy's: computed here once more, since it is what is tested.
inline double plain_percentile(std::vector<double> values, double rank) {
  EXPECT_FALSE(values.empty());
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const double place = rank / 100.0 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double plain_median(std::vector<double> values) {
  return plain_percentile(std::move(values), 50.0);
}

inline double plain_mean(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace millrace::bench
