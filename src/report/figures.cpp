#include "report/figures.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace millrace::bench {

std::string fixed(std::optional<double> value, int decimals, std::string_view missing) {
  if (!value || !std::isfinite(*value)) return std::string(missing);
  return fmt::format("{:.{}f}", *value, decimals);
}

std::string rounded_2(std::optional<double> value, std::string_view missing) {
  if (!value || !std::isfinite(*value)) return std::string(missing);
  const double rounded = std::round(*value * 100.0) / 100.0;
  // Adding 0 makes -0 a 0.
  return fmt::format("{}", rounded + 0.0);
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string whole(std::optional<int64_t> value, std::string_view missing) {
  return value ? fmt::format("{}", *value) : std::string(missing);
}

std::optional<double> scaled(std::optional<double> value, double factor) {
  if (!value) return std::nullopt;
  return *value * factor;
}

std::optional<double> mean_of(const PointSummary& row, Metric metric) {
  if (!row[metric]) return std::nullopt;
  return row[metric]->mean;
}

std::optional<double> percentile_of(const PointSummary& row, Metric metric, double rank) {
  if (!row[metric]) return std::nullopt;
  return row[metric]->percentile(rank);
}

std::optional<double> std_of(const PointSummary& row, Metric metric) {
  if (!row[metric] || row[metric]->count == 0) return std::nullopt;
  return row[metric]->std;
}

std::optional<double> max_of(const PointSummary& row, Metric metric) {
  const std::optional<Distribution>& samples = row[metric];
  if (!samples || samples->count == 0 || samples->max < samples->mean) return std::nullopt;
  return samples->max;
}

std::optional<double> min_of(const PointSummary& row, Metric metric) {
  if (!max_of(row, metric)) return std::nullopt;
  return row[metric]->min;
}

std::string rank_word(double rank) {
  return fmt::format("{}", rank);
}

json::value number_or_null(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

json::value count_or_null(std::optional<int64_t> value) {
  if (!value) return nullptr;
  return *value;
}

json::value text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return json::value(text);
}

json::value rate_word(double request_rate) {
  if (!std::isfinite(request_rate)) return "inf";
  return request_rate;
}

namespace {

struct CivilTime {
  std::chrono::year_month_day day;
  std::chrono::hh_mm_ss<std::chrono::seconds> time;
};

CivilTime civil_time(int64_t unix_ns) {
  using namespace std::chrono;
  const sys_seconds at = floor<seconds>(sys_time<nanoseconds>(nanoseconds(unix_ns)));
  const sys_days day = floor<days>(at);
  return {year_month_day(day), hh_mm_ss<seconds>(at - day)};
}

}  // namespace

std::string compact_date(int64_t unix_ns) {
  const CivilTime at = civil_time(unix_ns);
  return fmt::format(
      "{:04}{:02}{:02}-{:02}{:02}{:02}",
      static_cast<int>(at.day.year()),
      static_cast<unsigned>(at.day.month()),
      static_cast<unsigned>(at.day.day()),
      at.time.hours().count(),
      at.time.minutes().count(),
      at.time.seconds().count()
  );
}

std::string time_of_day(int64_t unix_ns) {
  const CivilTime at = civil_time(unix_ns);
  return fmt::format(
      "{:02}:{:02}:{:02}",
      at.time.hours().count(),
      at.time.minutes().count(),
      at.time.seconds().count()
  );
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) text += between;
    text += part;
  }
  return text;
}

std::string table_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') {
      cell += "\\|";
    } else {
      cell += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return cell;
}

std::string table_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += ' ' + table_cell(cell) + " |";
  return line + '\n';
}

}  // namespace millrace::bench
