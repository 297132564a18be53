#include "results/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace millrace::bench {
namespace {

constexpr size_t kBlocksMin = 8;
constexpr size_t kBlocksMax = 128;
// An interval around the p99 of a hundred samples would be an interval around their maximum.
constexpr double kSamplesBeyondMin = 3.0;

size_t choose_num_blocks(size_t num_requests) {
  if (num_requests < kBlocksMin) return 0;
  const auto length = static_cast<size_t>(std::llround(std::cbrt(double(num_requests))));
  return std::clamp(num_requests / std::max<size_t>(1, length), kBlocksMin, kBlocksMax);
}

bool has_enough_beyond(double weight, double rank) {
  return weight * std::min(rank, 100.0 - rank) / 100.0 >= kSamplesBeyondMin - 1e-9;
}

// Sorted samples with, for stretches of them, the weight that each block has there: a resample's
// percentile is found by whole stretches first. [num_stretches, num_blocks]
class BlockTable {
 public:
  BlockTable(std::span<const Sample> sorted, std::vector<size_t> blocks, size_t num_blocks)
      : sorted_(sorted),
        blocks_(std::move(blocks)),
        num_blocks_(num_blocks),
        weights_(num_blocks),
        sums_(num_blocks) {
    const size_t num_stretches = std::min<size_t>(1024, sorted.size() / 32 + 1);
    stretch_length_ = (sorted.size() + num_stretches - 1) / num_stretches;
    stretches_.resize(num_stretches * num_blocks);
    for (size_t i = 0; i < sorted.size(); ++i) {
      stretches_[i / stretch_length_ * num_blocks + blocks_[i]] += sorted[i].weight;
      weights_[blocks_[i]] += sorted[i].weight;
      sums_[blocks_[i]] += sorted[i].weight * sorted[i].value;
    }
  }

  // Takes another resample.
  void choose(std::span<const double> counts) {
    counts_ = counts;
    total_ = dot(weights_);
    reached_.clear();
    double reached = 0.0;
    for (size_t at = 0; at < stretches_.size(); at += num_blocks_) {
      reached_.push_back(reached += dot({stretches_.data() + at, num_blocks_}));
    }
  }

  double total() const { return total_; }
  double mean() const { return dot(sums_) / total_; }

  double percentile(double rank, Quantiles quantiles) const {
    if (quantiles == Quantiles::kWeightedCdf) {
      // The first value at which the weight is reached, not passed.
      return value_beyond(rank / 100.0 * total_ * (1.0 - 1e-12));
    }
    const double index = (total_ - 1.0) * rank / 100.0;
    const double low_index = std::floor(index);
    const double low = value_beyond(low_index);
    const double high = value_beyond(low_index + 1.0);
    return low + (high - low) * (index - low_index);
  }

 private:
  double dot(std::span<const double> values) const {
    double sum = 0.0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[i] * counts_[i];
    return sum;
  }

  // Of the first sample that, with all before it, weighs more than `weight`.
  double value_beyond(double weight) const {
    const auto stretch = std::upper_bound(reached_.begin(), reached_.end(), weight);
    if (stretch == reached_.end()) return largest_drawn();
    const auto number = static_cast<size_t>(stretch - reached_.begin());
    double reached = number == 0 ? 0.0 : reached_[number - 1];
    const size_t end = std::min(sorted_.size(), (number + 1) * stretch_length_);
    for (size_t i = number * stretch_length_; i < end; ++i) {
      reached += sorted_[i].weight * counts_[blocks_[i]];
      if (reached > weight) return sorted_[i].value;
    }
    return sorted_[end - 1].value;
  }

  double largest_drawn() const {
    for (size_t i = sorted_.size(); i-- > 0;) {
      if (counts_[blocks_[i]] > 0.0 && sorted_[i].weight > 0.0) return sorted_[i].value;
    }
    return sorted_.back().value;
  }

  std::span<const Sample> sorted_;
  std::vector<size_t> blocks_;
  size_t num_blocks_;
  std::vector<double> weights_, sums_;  // [num_blocks]
  size_t stretch_length_ = 0;
  std::vector<double> stretches_;
  std::span<const double> counts_;
  double total_ = 0.0;
  std::vector<double> reached_;  // [num_stretches]: the resample's weight up to each one's end
};

}  // namespace

BlockBootstrap::BlockBootstrap(const Options& options) : options_(options) {
  CHECK(options.num_resamples >= 0, "a number of resamples");
  CHECK(options.confidence > 0.0 && options.confidence < 1.0, "a confidence is in (0, 1)");
  num_blocks_ = choose_num_blocks(options.num_requests);
  if (num_blocks_ == 0) return;
  const auto num_resamples = static_cast<size_t>(options.num_resamples);
  counts_.resize(num_resamples * num_blocks_);
  Rng rng(options.seed);
  for (size_t resample = 0; resample < num_resamples; ++resample) {
    for (size_t i = 0; i < num_blocks_; ++i) {
      counts_[resample * num_blocks_ + rng.below(num_blocks_)] += 1.0;
    }
  }
}

std::span<const double> BlockBootstrap::counts(size_t resample) const {
  return {counts_.data() + resample * num_blocks_, num_blocks_};
}

size_t BlockBootstrap::block_of(const Sample& sample) const {
  CHECK(sample.request < options_.num_requests, "a sample of a request that is not there");
  return sample.request * num_blocks_ / options_.num_requests;
}

Interval BlockBootstrap::interval(std::vector<double> resampled) const {
  std::sort(resampled.begin(), resampled.end());
  const auto last = static_cast<double>(resampled.size() - 1);
  const double tail = (1.0 - options_.confidence) / 2.0;
  // Whole places, not between them: next to a value that is infinite there is none.
  return {
      .low = resampled[static_cast<size_t>(std::floor(last * tail))],
      .high = resampled[static_cast<size_t>(std::ceil(last * (1.0 - tail)))],
      .confidence = options_.confidence,
  };
}

BlockBootstrap::Intervals BlockBootstrap::censored_intervals(
    std::span<const Sample> sorted, std::span<const double> ranks
) const {
  std::vector<double> means;
  std::vector<std::vector<double>> values(ranks.size());
  std::vector<Sample> drawn(sorted.begin(), sorted.end());
  for (size_t resample = 0; resample < size_t(options_.num_resamples); ++resample) {
    const std::span<const double> drawn_counts = counts(resample);
    for (size_t i = 0; i < sorted.size(); ++i) {
      drawn[i].weight = sorted[i].weight * drawn_counts[block_of(sorted[i])];
    }
    if (total_weight(drawn) <= 0.0) continue;
    const Survival estimate = survival(drawn);
    means.push_back(estimate.moments().mean);
    for (size_t i = 0; i < ranks.size(); ++i) values[i].push_back(estimate.percentile(ranks[i]));
  }
  Intervals result{.mean = {}, .percentiles = std::vector<std::optional<Interval>>(ranks.size())};
  if (means.empty()) return result;
  const double weight = total_weight(sorted);
  result.mean = interval(std::move(means));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (has_enough_beyond(weight, ranks[i])) {
      result.percentiles[i] = interval(std::move(values[i]));
    }
  }
  return result;
}

BlockBootstrap::Intervals BlockBootstrap::intervals(
    std::span<const Sample> sorted, std::span<const double> ranks, Quantiles quantiles
) const {
  Intervals result{.mean = {}, .percentiles = std::vector<std::optional<Interval>>(ranks.size())};
  if (!is_possible() || sorted.empty()) return result;
  if (std::any_of(sorted.begin(), sorted.end(), [](const Sample& s) { return s.is_censored; })) {
    return censored_intervals(sorted, ranks);
  }
  std::vector<size_t> blocks;
  blocks.reserve(sorted.size());
  for (const Sample& sample : sorted) blocks.push_back(block_of(sample));
  BlockTable table(sorted, std::move(blocks), num_blocks_);
  const double weight = total_weight(sorted);
  std::vector<double> means;
  std::vector<std::vector<double>> values(ranks.size());
  for (size_t resample = 0; resample < size_t(options_.num_resamples); ++resample) {
    table.choose(counts(resample));
    if (table.total() <= 0.0) continue;
    means.push_back(table.mean());
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!has_enough_beyond(weight, ranks[i])) continue;
      values[i].push_back(table.percentile(ranks[i], quantiles));
    }
  }
  if (!means.empty()) result.mean = interval(std::move(means));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!values[i].empty()) result.percentiles[i] = interval(std::move(values[i]));
  }
  return result;
}

std::optional<Interval> BlockBootstrap::sum_interval(std::span<const double> per_block) const {
  if (!is_possible()) return std::nullopt;
  CHECK(per_block.size() == num_blocks_, "one value a block");
  std::vector<double> sums;
  for (size_t resample = 0; resample < size_t(options_.num_resamples); ++resample) {
    const std::span<const double> drawn = counts(resample);
    double sum = 0.0;
    for (size_t i = 0; i < num_blocks_; ++i) sum += drawn[i] * per_block[i];
    sums.push_back(sum);
  }
  return interval(std::move(sums));
}

}  // namespace millrace::bench
