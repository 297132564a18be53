// Confidence intervals from one run: the block bootstrap (Künsch 1989, with blocks side by side).
// Requests that follow each other share the server's state, so whole blocks of them, contiguous in
// time, are drawn again. Deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "results/point_summary.h"
#include "results/statistics.h"

namespace millrace::bench {

class BlockBootstrap {
 public:
  struct Options {
    size_t num_requests = 0;
    int32_t num_resamples = 1000;  // 0: no intervals
    double confidence = 0.95;
    uint64_t seed = 0;
  };
  explicit BlockBootstrap(const Options& options);

  // False: too few requests to say anything; then every interval is none.
  bool is_possible() const { return !counts_.empty(); }
  // Of about n^(1/3) requests each (Hall, Horowitz and Jing 1995), at most 128.
  size_t num_blocks() const { return num_blocks_; }

  struct Intervals {
    std::optional<Interval> mean;
    std::vector<std::optional<Interval>> percentiles;  // as many as ranks
  };
  // `sorted` by sort_samples; censored ones among them count as they do in survival(). A percentile
  // with fewer than three samples beyond it gets no interval.
  Intervals intervals(
      std::span<const Sample> sorted, std::span<const double> ranks, Quantiles quantiles
  ) const;

  // Of a sum over blocks of time, one value each. REQUIRES: as many as num_blocks().
  std::optional<Interval> sum_interval(std::span<const double> per_block) const;

 private:
  std::span<const double> counts(size_t resample) const;
  size_t block_of(const Sample& sample) const;
  Interval interval(std::vector<double> resampled) const;
  Intervals censored_intervals(std::span<const Sample> sorted, std::span<const double> ranks) const;

  Options options_;
  size_t num_blocks_ = 0;
  std::vector<double> counts_;  // [num_resamples, num_blocks]: how often each block was drawn
};

}  // namespace millrace::bench
