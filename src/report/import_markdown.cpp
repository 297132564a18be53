// The three published tables in markdown: rows of cells below a header that is known, with the
// headings above it.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "report/import_parts.h"

namespace millrace::bench {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

// Of "| a | b |"; empty: no line of a table.
std::vector<std::string_view> split_cells(std::string_view line) {
  std::vector<std::string_view> cells;
  line = trimmed(line);
  if (line.size() < 2 || line.front() != '|' || line.back() != '|') return cells;
  line = line.substr(1);
  size_t from = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '|' || (i > 0 && line[i - 1] == '\\')) continue;
    cells.push_back(trimmed(line.substr(from, i - from)));
    from = i + 1;
  }
  return cells;
}

bool is_rule(const std::vector<std::string_view>& cells) {
  for (const std::string_view cell : cells) {
    if (cell.find_first_not_of(":-") != std::string_view::npos || cell.empty()) return false;
  }
  return true;
}

// The headings that a table stands below.
struct Headings {
  std::string first, second;  // "# " and "## "
  std::string item;           // "- **model**, ..."
};

struct Line {
  std::string_view text;
  int64_t number = 0;
};

Error row_error(const Line& line, std::string_view message) {
  return invalid_argument(fmt::format("line {}: {}", line.number, message));
}

// A number with its unit behind it; none: it is something else.
std::optional<double> parse_figure(std::string_view cell, std::string_view unit) {
  double value = 0.0;
  const char* const end = cell.data() + cell.size();
  const auto [rest, ec] = std::from_chars(cell.data(), end, value);
  if (ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  // Some cells have lost the space before their unit.
  if (trimmed(std::string_view(rest, static_cast<size_t>(end - rest))) != unit) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Digits behind `key` within `text`.
std::optional<int64_t> count_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + key.size());
  return parse_count(rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size())));
}

Distribution only_mean(double mean) {
  Distribution samples;
  samples.mean = mean;
  return samples;
}

Distribution mean_and_p99(double mean, double p99) {
  Distribution samples;
  samples.mean = mean;
  samples.percentiles.push_back({.rank = 99.0, .value = p99});
  return samples;
}

using Cells = std::vector<std::string_view>;

Result<ImportedRow> read_grid_row(const Cells& cells, const Line& line, const Headings& headings) {
  ImportedRow imported{.section = headings.second, .line = line.number};
  PointSummary& row = imported.summary;
  row.formulas = Formulas::kGrid;
  row.plan.model = headings.second;
  row.plan.framework = std::string(cells[0]);
  row.plan.version = std::string(cells[1]);
  row.plan.device = std::string(cells[2]);
  row.plan.name = std::string(cells[3]);
  imported.section += (imported.section.empty() ? "" : ", ") + row.plan.device;
  std::array<std::optional<int64_t>, 4> biho;
  std::string_view rest = cells[3];
  for (size_t i = 0; i < biho.size(); ++i) {
    const size_t end = i + 1 < biho.size() ? rest.find('/') : rest.size();
    if (end != std::string_view::npos) biho[i] = parse_count(rest.substr(0, end));
    if (!biho[i]) {
      return row_error(line, fmt::format("B/I/H/O is '{}': expected four counts", cells[3]));
    }
    rest = i + 1 < biho.size() ? rest.substr(end + 1) : rest;
  }
  row.plan.load = {.kind = LoadKind::kConcurrency, .max_concurrency = biho[0]};
  row.plan.dataset.input_len = biho[1];
  row.plan.dataset.hit_len = biho[2];
  row.plan.dataset.output_len = biho[3];
  row.plan.dataset.ignores_eos = true;
  const auto all_are = [&](std::string_view word) {
    return cells[4] == word && cells[5] == word && cells[6] == word && cells[7] == word;
  };
  if (all_are("m")) return imported;
  if (all_are("e")) {
    row.num_completed = 0;
    return imported;
  }
  std::array<double, 4> figures{};
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::optional<double> figure = parse_figure(cells[4 + i], "");
    if (!figure) {
      return row_error(line, fmt::format("'{}' is no figure: expected a number", cells[4 + i]));
    }
    figures[i] = *figure;
  }
  row[Metric::kTtft] = only_mean(figures[0] * 1e3);
  row[Metric::kE2e] = only_mean(figures[1] * 1e3);
  row.request_throughput = figures[2];
  row.total_throughput = figures[3];
  return imported;
}

// "- **model**, **n**张**gpu**, **engine**, prompt_tokens=512, generated_tokens=128"
void read_sweep_heading(std::string_view item, PointPlan& plan) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < item.size(); ++i) {
    if (item[i] == '*') continue;
    if (item.substr(i).starts_with("张")) {
      parts.back() += " x ";
      i += std::string_view("张").size() - 1;
    } else if (item.substr(i).starts_with(", ")) {
      parts.emplace_back();
      ++i;
    } else {
      parts.back() += item[i];
    }
  }
  plan.dataset.input_len = count_after(item, "prompt_tokens=");
  plan.dataset.output_len = count_after(item, "generated_tokens=");
  std::string* const places[] = {&plan.model, &plan.device, &plan.framework};
  size_t place = 0;
  for (std::string& part : parts) {
    if (part.find('=') != std::string::npos || place == std::size(places)) continue;
    *places[place++] = std::move(part);
  }
}

Result<ImportedRow> read_sweep_row(const Cells& cells, const Line& line, const Headings& headings) {
  constexpr std::string_view kUnits[] = {"req/sec", "sec", "ms", "ms", "tokens/sec"};
  ImportedRow imported{.line = line.number};
  for (const char c : headings.item) {
    if (c != '*') imported.section += c;
  }
  PointSummary& row = imported.summary;
  row.formulas = Formulas::kGuidellm01;
  read_sweep_heading(headings.item, row.plan);
  row.plan.name = std::string(cells[0]);
  LoadPlan& load = row.plan.load;
  if (const size_t at = cells[0].find('@'); at != std::string_view::npos) {
    const std::optional<double> rate = parse_figure(cells[0].substr(at + 1), "req/sec");
    if (!rate || *rate <= 0.0) {
      return row_error(
          line, fmt::format("'{}' has no rate: expected 'mode@1.23 req/sec'", cells[0])
      );
    }
    load = {.kind = LoadKind::kConstant, .request_rate = *rate};
  } else if (cells[0] == "synchronous") {
    load = {.kind = LoadKind::kConcurrency, .max_concurrency = 1};
  }
  std::array<double, 5> figures{};
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::optional<double> figure = parse_figure(cells[i + 1], kUnits[i]);
    if (!figure) {
      return row_error(
          line, fmt::format("'{}' is no figure: expected a number of {}", cells[i + 1], kUnits[i])
      );
    }
    figures[i] = *figure;
  }
  row.request_throughput = figures[0];
  row.output_throughput = figures[4];
  row[Metric::kE2e] = only_mean(figures[1] * 1e3);
  row[Metric::kTtft] = only_mean(figures[2]);
  row[Metric::kItl] = only_mean(figures[3]);
  return imported;
}

Result<ImportedRow> read_concurrency_row(
    const Cells& cells, const Line& line, const Headings& headings
) {
  ImportedRow imported{.section = headings.first, .line = line.number};
  PointSummary& row = imported.summary;
  row.formulas = Formulas::kVllm;
  row.plan.framework = headings.first;
  const std::optional<int64_t> concurrency = parse_count(cells[0]);
  if (!concurrency || *concurrency == 0) {
    return row_error(line, fmt::format("'{}' is no concurrency: expected a count", cells[0]));
  }
  row.plan.load = {.kind = LoadKind::kConcurrency, .max_concurrency = concurrency};
  row.plan.name = fmt::format("concurrency {}", *concurrency);
  if (const size_t at = headings.second.find("ISL:OSL="); at != std::string::npos) {
    const std::string_view lengths = std::string_view(headings.second).substr(at);
    row.plan.dataset.input_len = count_after(lengths, "ISL:OSL=");
    row.plan.dataset.output_len =
        count_after(lengths.substr(std::string_view("ISL:OSL=").size()), ":");
    // A heading of exact lengths is a claim of exact lengths.
    row.plan.dataset.ignores_eos = true;
    imported.section += fmt::format(
        "{}{}",
        imported.section.empty() ? "" : ", ",
        lengths.substr(0, std::min(lengths.find(')'), lengths.size()))
    );
  }
  std::array<double, 8> figures{};
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::optional<double> figure = parse_figure(cells[i + 1], "");
    if (!figure) {
      return row_error(line, fmt::format("'{}' is no figure: expected a number", cells[i + 1]));
    }
    figures[i] = *figure;
  }
  row.request_throughput = figures[0];
  row.output_throughput = figures[1];
  row[Metric::kE2e] = mean_and_p99(figures[2], figures[3]);
  row[Metric::kTtft] = mean_and_p99(figures[4], figures[5]);
  row[Metric::kTpot] = mean_and_p99(figures[6], figures[7]);
  return imported;
}

using ReadRow = Result<ImportedRow> (*)(const Cells&, const Line&, const Headings&);

struct TableKind {
  ResultFormat format = ResultFormat::kGridMarkdown;
  size_t num_columns = 0;
  ReadRow read_row = nullptr;
};

// none: a table of something else.
std::optional<TableKind> table_kind(const Cells& cells) {
  if (cells.size() == 8 && cells[3] == "B/I/H/O") {
    return TableKind{ResultFormat::kGridMarkdown, 8, read_grid_row};
  }
  if (cells.size() == 6 && cells[0] == "Benchmark" && cells[1] == "Requests per Second") {
    return TableKind{ResultFormat::kGuidellmMarkdown, 6, read_sweep_row};
  }
  if (cells.size() == 9 && cells[0] == "Concurrency") {
    return TableKind{ResultFormat::kConcurrencyMarkdown, 9, read_concurrency_row};
  }
  return std::nullopt;
}

void read_heading(std::string_view line, Headings& headings) {
  const std::string text(trimmed(line.substr(std::min(line.find(' '), line.size()))));
  if (line.starts_with("# ")) {
    headings = {.first = text};
  } else if (line.starts_with("## ")) {
    headings.second = text;
    headings.item.clear();
  } else if (line.starts_with("- **")) {
    headings.item = text;
  }
}

// Reads line by line: which table it is in, and below which headings.
class MarkdownReader {
 public:
  Result<void> read_line(const Line& line) {
    if (trimmed(line.text).starts_with("```")) is_code_ = !is_code_;
    if (is_code_) return {};
    const Cells cells = split_cells(line.text);
    if (cells.empty()) {
      kind_.reset();
      read_heading(line.text, headings_);
      return {};
    }
    if (const std::optional<TableKind> kind = table_kind(cells)) return start_table(*kind, line);
    if (!kind_ || is_rule(cells)) return {};
    if (cells.size() != kind_->num_columns) {
      return row_error(
          line, fmt::format("{} cells: expected {}", cells.size(), kind_->num_columns)
      );
    }
    if (file_.rows.size() >= kImportedRowsMax) {
      return row_error(line, fmt::format("more than {} rows", kImportedRowsMax));
    }
    Result<ImportedRow> row = kind_->read_row(cells, line, headings_);
    if (!row) return row.error();
    file_.rows.push_back(*std::move(row));
    return {};
  }

  ImportedFile take() { return std::move(file_); }

 private:
  Result<void> start_table(const TableKind& kind, const Line& line) {
    if (!file_.rows.empty() && kind.format != file_.format) {
      return row_error(line, "a table of another kind than those above: expected one kind a file");
    }
    kind_ = kind;
    file_.format = kind.format;
    return {};
  }

  ImportedFile file_;
  Headings headings_;
  std::optional<TableKind> kind_;  // of the table that the line before is in
  bool is_code_ = false;
};

}  // namespace

Result<ImportedFile> import_markdown(std::string_view text, const std::string& name) {
  MarkdownReader reader;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const Result<void> read = reader.read_line({text.substr(0, end), ++number});
    if (!read) return invalid_argument(name + ", " + read.error().message, name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  ImportedFile file = reader.take();
  if (file.rows.empty()) {
    return invalid_argument(
        fmt::format(
            "{}: no results in {} lines: expected JSON of millrace, vLLM, SGLang or guidellm, or a "
            "table with the columns B/I/H/O, 'Requests per Second' or 'Concurrency'",
            name,
            number
        ),
        name
    );
  }
  return file;
}

}  // namespace millrace::bench
