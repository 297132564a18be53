#include "results/grid_totals.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "results/formulas.h"

namespace millrace::bench {
namespace {

// Adds one coroutine's share of the rates and its means. REQUIRES: at least three.
bool add_slot(std::span<const RequestFigures> ended, GridTotals& totals) {
  const size_t num_kept = ended.size() - 2;
  // From where the first one ended: what is counted took exactly this long.
  const TimeSpan time{.begin = ended.front().span.end, .end = ended[num_kept].span.end};
  if (time.seconds() <= 0.0) return false;
  double ttft = 0.0;
  double e2e = 0.0;
  for (const RequestFigures& figures : ended.subspan(1, num_kept)) {
    totals.input_tokens_per_s += static_cast<double>(figures.num_input_tokens) / time.seconds();
    totals.output_tokens_per_s += static_cast<double>(figures.num_output_tokens) / time.seconds();
    ttft += figures.ttft ? figures.ttft->ms : 0.0;
    e2e += figures.e2e ? figures.e2e->ms : 0.0;
  }
  totals.requests_per_s += static_cast<double>(num_kept) / time.seconds();
  totals.mean_ttft_ms += ttft / static_cast<double>(num_kept);
  totals.mean_e2e_ms += e2e / static_cast<double>(num_kept);
  return true;
}

}  // namespace

std::optional<GridTotals> grid_totals(const PointRecord& record) {
  std::map<int32_t, std::vector<RequestFigures>> slots;
  for (const RequestRecord& request : record.requests) {
    if (request.phase != Phase::kMeasured || request.outcome != Outcome::kCompleted) continue;
    slots[request.slot].push_back(request_figures(Formulas::kGrid, record.plan, request));
  }
  GridTotals totals;
  int64_t num_slots = 0;
  for (auto& [slot, figures] : slots) {
    if (figures.size() < 3) continue;
    std::stable_sort(figures.begin(), figures.end(), [](const auto& a, const auto& b) {
      return a.span.end < b.span.end;
    });
    if (add_slot(figures, totals)) ++num_slots;
  }
  if (num_slots == 0) return std::nullopt;
  totals.mean_ttft_ms /= static_cast<double>(num_slots);
  totals.mean_e2e_ms /= static_cast<double>(num_slots);
  return totals;
}

}  // namespace millrace::bench
