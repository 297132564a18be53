// The rows of a page, in the order they were given, with what they are called and what belongs
// together. Plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/point_record.h"
#include "results/point_summary.h"

namespace millrace::bench {

struct PageRow {
  const PointSummary* summary = nullptr;  // never null
  const PointRecord* record = nullptr;    // what the summary was made of; null: not there
  std::string name;                       // of the row alone
  size_t series = 0;
};

// Rows that one line of a chart joins: one framework, one model, one workload, several loads.
struct PageSeries {
  std::string name;  // as much as tells it from the others
  size_t framework = 0;
};

struct PageRows {
  std::vector<PageRow> rows;
  std::vector<PageSeries> series;       // in the order in which they come first
  std::vector<std::string> frameworks;  // the same

  // With its series' name, where there are several.
  std::string full_name(const PageRow& row) const;
};

// A row finds its record by its plan and its start. Both must outlive the result.
PageRows arrange_rows(std::span<const PointSummary> rows, std::span<const PointRecord> records);

// "concurrency 8", "2.6/s, Poisson", "all at once"
std::string load_text(const LoadPlan& load);
// "random 1000:100", "1024:32 with 512 cached"
std::string workload_text(const DatasetPlan& dataset);

}  // namespace millrace::bench
