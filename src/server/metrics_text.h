// For tests: reads Prometheus's text format, strictly: what its own parsers refuse fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace millrace {

struct MetricsText {
  std::map<std::string, std::string> types;  // by family
  std::map<std::string, double> samples;     // by `name{labels}`, as written

  double at(const std::string& sample) const {
    const auto found = samples.find(sample);
    EXPECT_NE(found, samples.end()) << sample;
    return found == samples.end() ? -1.0 : found->second;
  }
};

// The family of a sample's name: itself, or without the suffix of a histogram's part.
inline std::string family_of(const MetricsText& text, const std::string& name) {
  if (text.types.contains(name)) return name;
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    const auto found = text.types.find(family);
    if (found != text.types.end() && found->second == "histogram") return family;
  }
  return "";
}

// Buckets grow, end in +Inf and agree with the count.
inline void expect_consistent_histograms(const MetricsText& text) {
  std::map<std::string, std::map<double, double>> buckets;  // by series, then bound
  for (const auto& [key, value] : text.samples) {
    const size_t le = key.find("le=\"");
    if (le == key.npos) continue;
    const std::string bound = key.substr(le + 4, key.find('"', le + 4) - le - 4);
    std::string series = key.substr(0, le);
    series.replace(series.find("_bucket"), 7, "_count");
    series.back() = '}';  // the comma
    buckets[series][std::strtod(bound.c_str(), nullptr)] = value;
  }
  for (const auto& [series, of_series] : buckets) {
    double last = 0.0;
    for (const auto& [bound, value] : of_series) {
      EXPECT_GE(value, last) << series << " at " << bound;
      last = value;
    }
    EXPECT_EQ(of_series.rbegin()->first, HUGE_VAL) << series;
    EXPECT_EQ(of_series.rbegin()->second, text.at(series)) << series;
  }
}

inline MetricsText parse_metrics(const std::string& text) {
  MetricsText result;
  EXPECT_TRUE(text.ends_with('\n'));
  std::set<std::string> families_over;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash;
    std::string what;
    std::string name;
    if (line.starts_with("# ")) {
      words >> hash >> what >> name;
      if (what == "HELP") continue;
      EXPECT_EQ(what, "TYPE") << line;
      EXPECT_TRUE(families_over.insert(name).second) << "twice: " << name;
      words >> result.types[name];
      current = name;
      continue;
    }
    const size_t space = line.rfind(' ');
    EXPECT_NE(space, line.npos) << line;
    const std::string key = line.substr(0, space);
    EXPECT_EQ(family_of(result, key.substr(0, key.find('{'))), current) << line;
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + space + 1, &end);
    EXPECT_EQ(*end, '\0') << line;
    EXPECT_TRUE(result.samples.emplace(key, value).second) << "twice: " << line;
  }
  expect_consistent_histograms(result);
  return result;
}

}  // namespace millrace
