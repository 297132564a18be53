#include "loadgen/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/load.h"
#include "loadgen/mock_server.h"
#include "results/point_summary.h"
#include "workload/dataset.h"

namespace millrace::bench {
namespace {

constexpr int64_t kNumPromptTokens = 32;
// Of a point's own floor. Below this a second has too few requests to say anything; so low a rate
// strains nobody anyhow.
constexpr double kRateMin = 50.0;
constexpr int64_t kConcurrencyMax = 1024;  // the same: what more connections add shows by then

// Prompts of so many words; the mock counts words.
class WordDataset final : public Dataset {
 public:
  explicit WordDataset(int64_t num_output_tokens) : num_output_tokens_(num_output_tokens) {}

  std::optional<size_t> size() const override { return std::nullopt; }
  Result<PlannedSession> session(size_t index) const override {
    std::string text = fmt::format("w{}", index);
    for (int64_t i = 1; i < kNumPromptTokens; ++i) text += " w";
    PlannedRequest request;
    request.prompt = std::move(text);
    request.num_prompt_tokens = kNumPromptTokens;
    request.num_output_tokens = num_output_tokens_;
    return PlannedSession{{std::move(request)}};
  }

 private:
  int64_t num_output_tokens_;
};

double milliseconds(Nanos time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// In place. 0 for none.
double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0.0;
  const auto rank =
      static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(rank));
  return values[rank];
}

bool is_measured(const RequestRecord& request) {
  return request.phase == Phase::kMeasured && request.outcome == Outcome::kCompleted;
}

Calibration figures_of(const LoadResult& result, const CalibrationLoad& load) {
  std::vector<double> ttft;
  std::vector<double> itl;
  int64_t num_completed = 0;
  for (const RequestRecord& request : result.requests) {
    if (!is_measured(request) || !request.first_token) continue;
    ++num_completed;
    ttft.push_back(milliseconds(*request.first_token - request.sent - load.ttft));
    for (size_t i = 1; i < request.chunks.size(); ++i) {
      if (request.chunks[i].num_tokens == 0 || request.chunks[i - 1].num_tokens == 0) continue;
      const Nanos gap = request.chunks[i].at() - request.chunks[i - 1].at();
      itl.push_back(std::abs(milliseconds(gap - load.itl)));
    }
  }
  const double seconds =
      std::chrono::duration<double>(result.finished - result.first_dispatch).count();
  return {
      .ttft_p50_ms = quantile(ttft, 0.5),
      .ttft_p99_ms = quantile(ttft, 0.99),
      .itl_p50_ms = quantile(itl, 0.5),
      .itl_p99_ms = quantile(itl, 0.99),
      .requests_per_s = seconds > 0.0 ? static_cast<double>(num_completed) / seconds : 0.0,
  };
}

// Half of what was measured: a closed loop then turns twice as fast, unless the client is its
// limit.
Nanos mock_time(double measured_ns, double most_ns) {
  return Nanos(static_cast<int64_t>(std::clamp(measured_ns / 2.0, 0.0, most_ns)));
}

LoadOptions options_of(const CalibrationLoad& load) {
  LoadOptions options;
  if (load.request_rate) {
    options.load.kind = LoadKind::kConstant;
    options.load.request_rate = *load.request_rate;
  } else {
    options.load.kind = LoadKind::kConcurrency;
    options.load.max_concurrency = load.concurrency;
  }
  options.num_warmups = 4;
  options.max_duration = load.duration;
  options.grace = Nanos(5'000'000'000);
  options.num_threads = load.num_threads;
  return options;
}

}  // namespace

std::optional<CalibrationLoad> calibration_load_of(const PointRecord& record, Protocol protocol) {
  std::vector<double> ttft;
  std::vector<double> itl;
  int64_t num_done = 0;
  int64_t num_tokens = 0;
  for (const RequestRecord& request : record.requests) {
    if (!is_measured(request) || !request.first_token) continue;
    ++num_done;
    num_tokens += request.num_output_tokens;
    ttft.push_back(static_cast<double>((*request.first_token - request.sent).count()));
    if (request.last_token && request.num_output_tokens > 1) {
      itl.push_back(
          static_cast<double>((*request.last_token - *request.first_token).count()) /
          static_cast<double>(request.num_output_tokens - 1)
      );
    }
  }
  if (num_done == 0) return std::nullopt;
  CalibrationLoad load;
  load.protocol = protocol;
  load.ttft = mock_time(quantile(ttft, 0.5), 2e8);
  load.itl = mock_time(quantile(itl, 0.5), 5e7);
  load.num_output_tokens = std::clamp<int64_t>(num_tokens / num_done, 2, 32);
  load.num_threads = record.client.num_threads;
  const double seconds =
      std::chrono::duration<double>(record.finished - record.first_dispatch).count();
  const bool is_open = record.plan.load.kind == LoadKind::kConstant ||
                       record.plan.load.kind == LoadKind::kGamma ||
                       record.plan.load.kind == LoadKind::kTrace;
  if (is_open && seconds > 0.0) {
    load.request_rate = std::max(static_cast<double>(num_done) / seconds, kRateMin);
  } else {
    load.concurrency = std::clamp<int64_t>(
        record.plan.load.max_concurrency.value_or(num_done), 1, kConcurrencyMax
    );
  }
  return load;
}

Result<Calibration> calibrate(const CalibrationLoad& load, std::stop_token stop) {
  MockOptions mock;
  mock.ttft.mean = load.ttft;
  mock.itl.mean = load.itl;
  const Result<std::unique_ptr<MockServer>> server = MockServer::start(mock);
  if (!server) return server.error();
  Target target;
  Result<http::BaseUrl> url = http::parse_base_url((*server)->url());
  if (!url) return url.error();
  target.url = *std::move(url);
  target.protocol = load.protocol;
  target.endpoint = load.protocol == Protocol::kChat       ? "/v1/chat/completions"
                    : load.protocol == Protocol::kGenerate ? "/generate"
                                                           : "/v1/completions";
  target.model = mock.model;
  const WordDataset dataset(load.num_output_tokens);
  const Result<LoadResult> result = run_load(target, dataset, options_of(load), std::move(stop));
  if (!result) return result.error();
  return figures_of(*result, load);
}

}  // namespace millrace::bench
