#include "workload/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "workload/gamma_gaps.h"

namespace millrace::bench {
namespace {

std::chrono::nanoseconds to_offset(double seconds) {
  CHECK(seconds >= 0.0, "an arrival before the start");
  const double nanos = seconds * 1e9;
  if (nanos >= static_cast<double>(kArrivalMax.count())) return kArrivalMax;
  return std::chrono::nanoseconds(std::llround(nanos));
}

// Counts up to num_requests; what differs is the offset of request `index`.
class CountedArrivals : public Arrivals {
 public:
  explicit CountedArrivals(std::optional<int64_t> num_requests) : num_requests_(num_requests) {}

  std::optional<std::chrono::nanoseconds> next() final {
    if (num_requests_ && index_ >= *num_requests_) return std::nullopt;
    return to_offset(seconds_at(index_++));
  }

 private:
  // Called once for each index, ascending.
  virtual double seconds_at(int64_t index) = 0;

  std::optional<int64_t> num_requests_;
  int64_t index_ = 0;
};

class ConstantArrivals : public CountedArrivals {
 public:
  explicit ConstantArrivals(const ArrivalOptions& options)
      : CountedArrivals(options.num_requests),
        rate_(options.request_rate),
        rampup_seconds_(options.rampup_seconds) {}

 private:
  // Computed from the index, not summed up, so that no error builds up over a long run.
  double seconds_at(int64_t index) override {
    const double i = static_cast<double>(index);
    const double num_in_rampup = rate_ * rampup_seconds_ / 2.0;
    if (i <= num_in_rampup) return std::sqrt(2.0 * i * rampup_seconds_ / rate_);
    return rampup_seconds_ + (i - num_in_rampup) / rate_;
  }

  double rate_;
  double rampup_seconds_;
};

// The rate of each request where it ramps up or down.
class Ramp {
 public:
  explicit Ramp(const ArrivalOptions& options)
      : kind_(options.ramp),
        start_rps_(options.ramp == RampKind::kNone ? options.request_rate : options.ramp_start_rps),
        end_rps_(options.ramp_end_rps),
        last_index_(std::max<int64_t>(options.num_requests.value_or(1) - 1, 1)) {}

  double rate(int64_t index) const {
    const double progress = static_cast<double>(index) / static_cast<double>(last_index_);
    switch (kind_) {
      case RampKind::kNone:
        return start_rps_;
      case RampKind::kLinear:
        return start_rps_ + (end_rps_ - start_rps_) * progress;
      case RampKind::kExponential:
        return start_rps_ * std::pow(end_rps_ / start_rps_, progress);
    }
    return start_rps_;
  }

 private:
  RampKind kind_;
  double start_rps_, end_rps_;
  int64_t last_index_;
};

// Request i is due `stretch` times the sum of gaps 0 to i; with `starts_at_once`, of 1 to i.
class SummedArrivals : public CountedArrivals {
 public:
  SummedArrivals(const ArrivalOptions& options, double shape, bool starts_at_once)
      : CountedArrivals(options.num_requests),
        ramp_(options),
        gaps_(shape, options.seed),
        starts_at_once_(starts_at_once) {}

  void stretch(double factor) { stretch_ = factor; }

 private:
  double seconds_at(int64_t index) override {
    if (index > 0 || !starts_at_once_) sum_ += gaps_.next() / ramp_.rate(index);
    return sum_ * stretch_;
  }

  Ramp ramp_;
  GammaGaps gaps_;
  bool starts_at_once_;
  double stretch_ = 1.0;
  double sum_ = 0.0;
};

// The sum of all gaps in the order in which they are drawn later, so that the last arrival is
// exact.
double sum_of_gaps(const ArrivalOptions& options) {
  GammaGaps gaps(options.burstiness, options.seed);
  double sum = 0.0;
  for (int64_t i = 0; i < *options.num_requests; ++i) sum += gaps.next() / options.request_rate;
  return sum;
}

bool is_rate(double value) {
  return std::isfinite(value) && value > 0.0;
}

Error bad_rate(const char* flag, double value) {
  return invalid_argument(
      fmt::format("{} is {}, expected a finite number of requests per second above 0", flag, value),
      flag
  );
}

Result<void> check_ramps(const ArrivalOptions& options) {
  if (!(options.rampup_seconds >= 0.0) || std::isinf(options.rampup_seconds)) {
    return invalid_argument(
        fmt::format("the ramp-up is {} s, expected seconds from 0", options.rampup_seconds),
        "rampup"
    );
  }
  if (options.rampup_seconds > 0.0 &&
      (options.kind != ArrivalKind::kConstant || options.ramp != RampKind::kNone)) {
    return invalid_argument("a ramp-up in seconds is for a constant rate only", "rampup");
  }
  if (options.ramp == RampKind::kNone) return {};
  if (!options.num_requests) {
    return invalid_argument(
        "--ramp-up-strategy needs a number of requests to ramp over", "--ramp-up-strategy"
    );
  }
  if (!is_rate(options.ramp_start_rps)) {
    return bad_rate("--ramp-up-start-rps", options.ramp_start_rps);
  }
  if (!is_rate(options.ramp_end_rps)) return bad_rate("--ramp-up-end-rps", options.ramp_end_rps);
  return {};
}

Result<void> check_options(const ArrivalOptions& options) {
  if (options.ramp == RampKind::kNone && !is_rate(options.request_rate)) {
    return bad_rate("--request-rate", options.request_rate);
  }
  if (options.kind == ArrivalKind::kGamma && !(options.burstiness > 0.0)) {
    return invalid_argument(
        fmt::format("--burstiness is {}, expected a number above 0", options.burstiness),
        "--burstiness"
    );
  }
  if (options.num_requests && *options.num_requests < 0) {
    return invalid_argument(
        fmt::format("--num-prompts is {}, expected 0 or more", *options.num_requests),
        "--num-prompts"
    );
  }
  return check_ramps(options);
}

}  // namespace

Result<std::unique_ptr<Arrivals>> make_arrivals(const ArrivalOptions& options) {
  if (Result<void> checked = check_options(options); !checked) return checked.error();
  const bool is_constant = options.kind == ArrivalKind::kConstant;
  if (is_constant && options.ramp == RampKind::kNone) {
    return std::unique_ptr<Arrivals>(std::make_unique<ConstantArrivals>(options));
  }
  const double shape = is_constant ? HUGE_VAL : options.burstiness;
  auto arrivals = std::make_unique<SummedArrivals>(options, shape, is_constant);
  if (options.is_rescaled && options.num_requests && options.ramp == RampKind::kNone) {
    const double sum = sum_of_gaps(options);
    const double target = static_cast<double>(*options.num_requests) / options.request_rate;
    if (sum > 0.0) arrivals->stretch(target / sum);
  }
  return std::unique_ptr<Arrivals>(std::move(arrivals));
}

}  // namespace millrace::bench
