#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "report/import_parts.h"

namespace millrace::bench {

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::fail(std::string_view key, std::string_view expected, const json::value& found) {
  if (error_) return;
  std::string text = to_json_text(found);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  error_ =
      invalid_argument(fmt::format("{}: '{}' is {}: expected {}", where_, key, text, expected));
}

std::optional<double> Fields::number(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fail(key, "a number", *value);
    return std::nullopt;
  }
  return value->to_number<double>();
}

std::optional<int64_t> Fields::count(std::string_view key) {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  // Python's clients write some counts as floats.
  if (!(std::abs(*value) < 9e15) || *value != std::floor(*value)) {
    fail(key, "a whole number", *find(key));
    return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

std::string Fields::text(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) {
    fail(key, "text", *value);
    return "";
  }
  return std::string(value->get_string());
}

std::optional<double> Fields::rate(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() && (value->get_string() == "inf" || value->get_string() == "trace")) {
    return std::numeric_limits<double>::infinity();
  }
  return number(key);
}

const json::object* Fields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) {
    fail(key, "an object", *value);
    return nullptr;
  }
  return &value->get_object();
}

std::optional<Distribution> read_flat_distribution(
    Fields& fields, std::string_view metric, std::optional<int64_t> count
) {
  const auto key = [&](std::string_view figure) { return fmt::format("{}_{}_ms", figure, metric); };
  const std::optional<double> mean = fields.number(key("mean"));
  if (!mean) return std::nullopt;
  Distribution samples;
  samples.mean = *mean;
  if (const std::optional<double> deviation = fields.number(key("std"))) {
    samples.std = *deviation;
    samples.count = std::max<int64_t>(count.value_or(0), 0);
    samples.sum = *mean * static_cast<double>(samples.count);
  }
  if (const std::optional<double> median = fields.number(key("median"))) {
    samples.percentiles.push_back({.rank = 50.0, .value = *median});
  }
  const std::string suffix = fmt::format("_{}_ms", metric);
  for (const json::key_value_pair& entry : fields.all()) {
    const std::string_view name = entry.key();
    if (name.size() < suffix.size() + 2 || name[0] != 'p' || !name.ends_with(suffix)) continue;
    const std::string_view word = name.substr(1, name.size() - 1 - suffix.size());
    double rank = 0.0;
    const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), rank);
    const bool is_rank = ec == std::errc() && end == word.data() + word.size() && rank >= 0.0 &&
                         rank <= 100.0 && rank != 50.0;
    if (!is_rank) continue;
    if (const std::optional<double> value = fields.number(name)) {
      samples.percentiles.push_back({.rank = rank, .value = *value});
    }
  }
  std::sort(
      samples.percentiles.begin(),
      samples.percentiles.end(),
      [](const Percentile& a, const Percentile& b) { return a.rank < b.rank; }
  );
  return samples;
}

namespace {

std::optional<int> digits(std::string_view text) {
  int value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

int64_t parse_compact_date(std::string_view text) {
  if (text.size() != 15 || text[8] != '-') return 0;
  const std::optional<int> year = digits(text.substr(0, 4)), month = digits(text.substr(4, 2)),
                           day = digits(text.substr(6, 2)), hour = digits(text.substr(9, 2)),
                           minute = digits(text.substr(11, 2)), second = digits(text.substr(13, 2));
  if (!year || !month || !day || !hour || !minute || !second) return 0;
  using namespace std::chrono;
  const year_month_day date{
      std::chrono::year(*year),
      std::chrono::month(static_cast<unsigned>(*month)),
      std::chrono::day(static_cast<unsigned>(*day))};
  // Within what nanoseconds since 1970 can say.
  if (!date.ok() || *year < 1970 || *year > 2200 || *hour > 23 || *minute > 59 || *second > 60) {
    return 0;
  }
  const auto at = sys_days(date) + hours(*hour) + minutes(*minute) + seconds(*second);
  return duration_cast<nanoseconds>(at.time_since_epoch()).count();
}

}  // namespace millrace::bench
