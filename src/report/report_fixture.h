// Rows and files for the tests of this folder.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "report/import.h"

namespace millrace::bench {

inline std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

inline std::vector<PointSummary> summaries(const ImportedFile& file) {
  std::vector<PointSummary> rows;
  for (const ImportedRow& row : file.rows) rows.push_back(row.summary);
  return rows;
}

inline size_t num_with(const ImportedFile& file, std::string_view code, Trust trust) {
  size_t num = 0;
  for (const ImportedRow& row : file.rows) {
    for (const Finding& finding : row.summary.verdict.findings) {
      if (finding.code != code || finding.trust != trust) continue;
      ++num;
      break;
    }
  }
  return num;
}

inline size_t num_of(const ImportedFile& file, Trust trust) {
  size_t num = 0;
  for (const ImportedRow& row : file.rows) {
    if (row.summary.verdict.trust() == trust) ++num;
  }
  return num;
}

inline const ImportedRow* row_at(const ImportedFile& file, int64_t line) {
  for (const ImportedRow& row : file.rows) {
    if (row.line == line) return &row;
  }
  return nullptr;
}

inline bool has_finding(const ImportedRow* row, std::string_view code, Trust trust) {
  if (row == nullptr) return false;
  for (const Finding& finding : row->summary.verdict.findings) {
    if (finding.code == code && finding.trust == trust) return true;
  }
  return false;
}

}  // namespace millrace::bench
