// The published grid's own totals: over each coroutine of its closed loop, without its first and
// last request.
#pragma once

#include <optional>

#include "results/point_record.h"

namespace millrace::bench {

struct GridTotals {
  double requests_per_s = 0.0;
  double input_tokens_per_s = 0.0;
  double output_tokens_per_s = 0.0;
  double mean_ttft_ms = 0.0;  // the mean of the coroutines' means
  double mean_e2e_ms = 0.0;
};

// Of completed measured requests, by slot in the order they ended in. A slot with fewer than three
// counts for nothing. none: every slot is so.
std::optional<GridTotals> grid_totals(const PointRecord& record);

}  // namespace millrace::bench
