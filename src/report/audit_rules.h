// What audit() asks of rows: rules over figures alone, none of which knows any particular file.
// Figures that were printed are ranges: the true one lies within half a unit of the last digit, and
// a rule finds fault only where no value of the range is right.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "report/import.h"

namespace millrace::bench {

// Half a unit of the last digit that a format prints; 0 where it prints all of them.
struct Precision {
  double rate = 0.0;  // requests and tokens per second
  double ttft_ms = 0.0;
  double itl_ms = 0.0;  // and TPOT
  double e2e_ms = 0.0;
};
Precision precision_of(ResultFormat format);

// Of positive numbers.
struct Range {
  double low = 0.0;
  double high = 0.0;

  double middle() const { return (low + high) / 2.0; }
  double relative_width() const { return high > 0.0 ? (high - low) / high : 0.0; }
};
Range around(double value, double half_width);
Range ratio(Range a, Range b);

void add_finding(PointSummary& row, Trust trust, std::string_view code, std::string message);

// Completed requests per second, from whatever says it in the most digits; none: not said, or 0.
std::optional<Range> request_rate_range(const PointSummary& row, const Precision& precision);

// Output tokens per request that the figures imply; none: they do not.
std::optional<Range> implied_output_len(const PointSummary& row, const Precision& precision);

// One row by itself.
void audit_row(PointSummary& row, const Precision& precision);
// The part of it that is about the load. REQUIRES: the row has figures.
void audit_load(PointSummary& row, const Precision& precision);

// Rows of one table, which are comparable: another load on the same server.
void audit_table(std::span<ImportedRow* const> rows, const Precision& precision);

}  // namespace millrace::bench
