#include "bench/grid_point.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace millrace::bench {
namespace {

constexpr int64_t kLongOutput = 128;

// "32/0/1024"
std::optional<GridLengths> parse_cell(std::string_view text) {
  int64_t numbers[3] = {};
  for (int i = 0; i < 3; ++i) {
    const size_t end = i < 2 ? text.find('/') : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + end, numbers[i]);
    if (error != std::errc() || rest != text.data() + end || numbers[i] < 0) return std::nullopt;
    text.remove_prefix(i < 2 ? end + 1 : end);
  }
  const GridLengths lengths{.input = numbers[0], .hit = numbers[1], .output = numbers[2]};
  if (lengths.input < 1 || lengths.output < 1 || lengths.hit > lengths.input) return std::nullopt;
  return lengths;
}

}  // namespace

std::string GridPoint::name() const {
  return fmt::format("{}/{}/{}/{}", batch, lengths.input, lengths.hit, lengths.output);
}

int64_t GridPoint::num_prompts() const {
  return batch * (lengths.output >= kLongOutput ? 16 : 32);
}

std::vector<GridPoint> grid_points(
    const std::vector<int64_t>& batches, const std::vector<GridLengths>& lengths
) {
  std::vector<GridPoint> points;
  for (const int64_t batch : batches) {
    for (const GridLengths& cell : lengths) points.push_back({.batch = batch, .lengths = cell});
  }
  return points;
}

Result<std::vector<GridLengths>> parse_grid_lengths(const std::string& text) {
  std::vector<GridLengths> cells;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string_view word = std::string_view(text).substr(start, end - start);
    const std::optional<GridLengths> cell = parse_cell(word);
    if (!cell) {
      return invalid_argument(
          fmt::format("'{}': expected INPUT/HIT/OUTPUT in tokens, HIT at most INPUT", word)
      );
    }
    cells.push_back(*cell);
    start = end + 1;
  }
  return cells;
}

}  // namespace millrace::bench
