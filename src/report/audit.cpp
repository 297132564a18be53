#include <fmt/format.h>

#include <algorithm>

#include "report/audit_rules.h"
#include "report/figures.h"
#include "report/import.h"

namespace millrace::bench {

void audit(ImportedFile& file) {
  // Our own records were judged with all that is known of them, when they were summarized.
  if (file.format == ResultFormat::kMillrace) return;
  const Precision precision = precision_of(file.format);
  for (ImportedRow& row : file.rows) {
    row.summary.verdict.findings.clear();
    audit_row(row.summary, precision);
  }
  size_t from = 0;
  while (from < file.rows.size()) {
    std::vector<ImportedRow*> table;
    const std::string& section = file.rows[from].section;
    for (; from < file.rows.size() && file.rows[from].section == section; ++from) {
      table.push_back(&file.rows[from]);
    }
    audit_table(table, precision);
  }
}

namespace {

struct CodeTotal {
  std::string_view code;
  int64_t num_warn = 0, num_invalid = 0;  // rows
  std::string example;                    // the first one's message
};

std::vector<CodeTotal> totals_of(const ImportedFile& file) {
  std::vector<CodeTotal> totals;
  for (const ImportedRow& row : file.rows) {
    std::vector<std::string_view> seen;
    for (const Finding& finding : row.summary.verdict.findings) {
      if (std::find(seen.begin(), seen.end(), finding.code) != seen.end()) continue;
      seen.push_back(finding.code);
      auto total = std::find_if(totals.begin(), totals.end(), [&](const CodeTotal& known) {
        return known.code == finding.code;
      });
      if (total == totals.end()) {
        totals.push_back({.code = finding.code, .example = finding.message});
        total = totals.end() - 1;
      }
      ++(finding.trust == Trust::kInvalid ? total->num_invalid : total->num_warn);
    }
  }
  std::stable_sort(totals.begin(), totals.end(), [](const CodeTotal& a, const CodeTotal& b) {
    return std::pair(a.num_invalid, a.num_warn) > std::pair(b.num_invalid, b.num_warn);
  });
  return totals;
}

std::string row_label(const ImportedRow& row, size_t index) {
  const PointPlan& plan = row.summary.plan;
  const std::string place =
      row.line > 0 ? fmt::format("line {}", row.line) : fmt::format("result {}", index + 1);
  std::string name = plan.name;
  // In a table of several servers, the load alone does not say which row it is.
  if (row.summary.formulas == Formulas::kGrid) name = plan.framework + ' ' + name;
  return name.empty() ? place : fmt::format("{}, {}", place, name);
}

std::string totals_markdown(const ImportedFile& file) {
  int64_t counts[3] = {0, 0, 0};
  for (const ImportedRow& row : file.rows) {
    ++counts[static_cast<size_t>(row.summary.verdict.trust())];
  }
  std::string text = fmt::format(
      "{} rows: {} ok, {} warn, {} invalid.\n",
      file.rows.size(),
      counts[static_cast<size_t>(Trust::kOk)],
      counts[static_cast<size_t>(Trust::kWarn)],
      counts[static_cast<size_t>(Trust::kInvalid)]
  );
  const std::vector<CodeTotal> totals = totals_of(file);
  if (totals.empty()) return text;
  text += '\n' + table_line({"Finding", "Rows invalid", "Rows warned of", "For example"});
  text += "|:--|--:|--:|:--|\n";
  for (const CodeTotal& total : totals) {
    text += table_line(
        {std::string(total.code),
         fmt::format("{}", total.num_invalid),
         fmt::format("{}", total.num_warn),
         total.example}
    );
  }
  return text;
}

}  // namespace

std::string audit_markdown(const ImportedFile& file, const std::string& name) {
  std::string text = fmt::format("# Audit of {}\n\n", table_cell(name)) + totals_markdown(file);
  const std::string* section = nullptr;
  for (size_t i = 0; i < file.rows.size(); ++i) {
    const ImportedRow& row = file.rows[i];
    if (row.summary.verdict.findings.empty()) continue;
    if (section == nullptr || *section != row.section) {
      text += fmt::format("\n## {}\n\n", row.section.empty() ? "Results" : table_cell(row.section));
      section = &row.section;
    }
    for (const Finding& finding : row.summary.verdict.findings) {
      text += fmt::format(
          "- {}: **{}** ({}): {}\n",
          table_cell(row_label(row, i)),
          to_string(finding.trust),
          finding.code,
          table_cell(finding.message)
      );
    }
  }
  return text;
}

}  // namespace millrace::bench
