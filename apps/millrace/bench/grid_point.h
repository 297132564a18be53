// One cell of the published grid: B/I/H/O.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::bench {

// Lengths in tokens: prompt, those of it that the cache holds, answer.
struct GridLengths {
  int64_t input = 0;
  int64_t hit = 0;
  int64_t output = 0;

  friend bool operator==(const GridLengths&, const GridLengths&) = default;
};

struct GridPoint {
  int64_t batch = 1;  // coroutines, each with one request at a time
  GridLengths lengths;

  // "1/32/0/1024"
  std::string name() const;
  // As published: B times 16 for long answers, B times 32 for short ones; and a quarter of that
  // before and after, which is not recorded.
  int64_t num_prompts() const;
  int64_t num_warmups() const { return num_prompts() / 4; }
};

// In the order of the table: each batch with all lengths.
std::vector<GridPoint> grid_points(
    const std::vector<int64_t>& batches, const std::vector<GridLengths>& lengths
);

// "32/0/1024,512/0/512"
Result<std::vector<GridLengths>> parse_grid_lengths(const std::string& text);

}  // namespace millrace::bench
