#include "results/paired_comparison.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "results/statistics.h"

namespace millrace::bench {
namespace {

constexpr size_t kBlocksForAllFlips = 16;
constexpr uint64_t kNumFlips = uint64_t{1} << kBlocksForAllFlips;

double mean_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of the mean.
double standard_error(std::span<const double> values) {
  const double mean = mean_of(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1.0) / n);
}

// The share of sign flips whose sum is at least as far from 0 as the one seen.
double permutation_p_value(std::span<const double> differences, uint64_t seed) {
  double seen = 0.0;
  for (const double difference : differences) seen += difference;
  // Sums of the same numbers in another order are not the same bits.
  const double threshold = std::abs(seen) * (1.0 - 1e-12);
  const bool is_exact = differences.size() <= kBlocksForAllFlips;
  const uint64_t num_flips = is_exact ? uint64_t{1} << differences.size() : kNumFlips;
  uint64_t num_extreme = 0;
  for (uint64_t flip = 0; flip < num_flips; ++flip) {
    double sum = 0.0;
    uint64_t bits = flip;
    for (size_t i = 0; i < differences.size(); ++i) {
      if (!is_exact && i % 64 == 0) bits = random_bits(mix64(seed) + i, flip);
      sum += (bits & 1) != 0 ? -differences[i] : differences[i];
      bits >>= 1;
    }
    if (std::abs(sum) >= threshold) ++num_extreme;
  }
  // Among drawn flips the one that was seen counts as drawn too, so that p is never 0.
  const auto extra = static_cast<uint64_t>(is_exact ? 0 : 1);
  return static_cast<double>(num_extreme + extra) / static_cast<double>(num_flips + extra);
}

}  // namespace

std::optional<PairedComparison> compare_paired(
    std::span<const PairedBlock> blocks, double confidence, uint64_t seed
) {
  CHECK(confidence > 0.0 && confidence < 1.0, "a confidence is in (0, 1)");
  if (blocks.size() < 2) return std::nullopt;
  std::vector<double> first, second, differences;
  for (const PairedBlock& block : blocks) {
    if (!std::isfinite(block.first) || !std::isfinite(block.second)) return std::nullopt;
    first.push_back(block.first);
    second.push_back(block.second);
    differences.push_back(block.second - block.first);
  }
  PairedComparison result;
  const double degrees = static_cast<double>(blocks.size() - 1);
  const double quantile = student_t_quantile(confidence, degrees);
  result.mean_difference = mean_of(differences);
  const double error = standard_error(differences);
  result.difference_interval = {
      .low = result.mean_difference - quantile * error,
      .high = result.mean_difference + quantile * error,
      .confidence = confidence,
  };
  if (error > 0.0) {
    result.p_student = student_t_two_sided(result.mean_difference / error, degrees);
  } else {
    result.p_student = result.mean_difference == 0.0 ? 1.0 : 0.0;
  }
  result.p_permutation = permutation_p_value(differences, seed);
  result.is_significant = std::max(result.p_student, result.p_permutation) < 1.0 - confidence;
  if (result.mean_difference == 0.0) return result;
  result.faster = result.mean_difference > 0.0 ? Faster::kFirst : Faster::kSecond;
  const std::vector<double>& faster = result.mean_difference > 0.0 ? first : second;
  const std::vector<double>& slower = result.mean_difference > 0.0 ? second : first;
  const double mean_slower = mean_of(slower);
  if (mean_slower <= 0.0) return result;
  const double ratio = mean_of(faster) / mean_slower;
  std::vector<double> residuals;
  for (size_t i = 0; i < faster.size(); ++i) {
    residuals.push_back(100.0 * (faster[i] - ratio * slower[i]) / mean_slower);
  }
  const double half_width = quantile * standard_error(residuals);
  result.faster_percent = 100.0 * (1.0 - ratio);
  result.faster_percent_interval = {
      .low = result.faster_percent - half_width,
      .high = result.faster_percent + half_width,
      .confidence = confidence,
  };
  return result;
}

}  // namespace millrace::bench
