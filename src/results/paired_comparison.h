// Which of two servers is faster, from blocks of the same work done by both in turn. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "results/point_summary.h"

namespace millrace::bench {

// The same figure of both in one block, lower is better: mean TTFT, seconds per token, ...
struct PairedBlock {
  double first = 0.0;
  double second = 0.0;
};

enum class Faster { kFirst, kSecond, kTie };

struct PairedComparison {
  Faster faster = Faster::kTie;      // by the means
  double mean_difference = 0.0;      // second - first
  Interval difference_interval;      // Student's
  double faster_percent = 0.0;       // 100 * (slower - faster) / slower, of the means
  Interval faster_percent_interval;  // of that ratio, by linearization (the delta method)
  double p_student = 1.0;            // two-sided, of no difference
  double p_permutation = 1.0;        // two-sided, by flipping the signs of differences
  // Both p-values are below 1 - confidence. Flipping signs can say so from six blocks on.
  bool is_significant = false;
};

// All flips up to 16 blocks, beyond that 65,536 seeded ones: deterministic. none: fewer than two
// blocks, or a figure that is not finite.
std::optional<PairedComparison> compare_paired(
    std::span<const PairedBlock> blocks, double confidence = 0.95, uint64_t seed = 0
);

}  // namespace millrace::bench
