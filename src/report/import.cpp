#include "report/import.h"

#include <fmt/format.h>

#include "report/import_parts.h"
#include "results/record_file.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

Error in_file(const std::string& name, const std::string& message) {
  return invalid_argument(fmt::format("{}: {}", name, message), name);
}

// Python's json writes Infinity and NaN, which are no JSON: they become "inf" and null. Text within
// strings stays.
std::string to_strict_json(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"-Infinity", "null"}, {"Infinity", "\"inf\""}, {"NaN", "null"}};
  std::string strict;
  strict.reserve(text.size());
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      strict += c;
      if (c == '\\' && i + 1 < text.size()) {
        strict += text[++i];
      } else if (c == '"') {
        is_string = false;
      }
      continue;
    }
    bool is_word = false;
    if (c == '-' || c == 'I' || c == 'N') {
      for (const auto& [word, instead] : kWords) {
        if (!text.substr(i).starts_with(word)) continue;
        strict += instead;
        i += word.size() - 1;
        is_word = true;
        break;
      }
    }
    if (is_word) continue;
    is_string = c == '"';
    strict += c;
  }
  return strict;
}

// Duplicate keys: vLLM's metadata may repeat one of its own.
Result<json::value> parse_lenient(std::string_view text) {
  return parse_json(to_strict_json(text), {.allow_duplicate_keys = true});
}

bool has(const json::object& object, std::string_view key) {
  return object.contains(key);
}

enum class RowKind { kMillrace, kVllm, kSglang, kUnknown };

RowKind row_kind(const json::object& object) {
  if (const json::value* type = object.if_contains("type"); type != nullptr && type->is_string()) {
    return RowKind::kMillrace;
  }
  if (has(object, "mean_e2e_latency_ms") || has(object, "dataset_name")) return RowKind::kSglang;
  if (has(object, "total_token_throughput") || has(object, "model_id")) return RowKind::kVllm;
  return RowKind::kUnknown;
}

Result<ImportedFile> import_records(std::string_view text, const std::string& name) {
  Result<std::vector<PointRecord>> records = parse_records(text);
  if (!records) return in_file(name, records.error().message);
  ImportedFile file{.format = ResultFormat::kMillrace};
  int64_t line = 1;
  for (const PointRecord& record : *records) {
    ImportedRow row{.summary = summarize(record), .line = line};
    row.section = record.plan.framework.empty() ? record.plan.model : record.plan.framework;
    file.rows.push_back(std::move(row));
    // One line for the point, one for each of its requests, one for its end.
    line += 2 + static_cast<int64_t>(record.requests.size());
  }
  return file;
}

// One object of a client's: its format is the file's, and must not change.
Result<void> add_client_row(const json::value& value, int64_t line, ImportedFile& file) {
  const std::string where = fmt::format("line {}", line);
  if (!value.is_object()) return invalid_argument(where + ": expected a JSON object");
  const RowKind kind = row_kind(value.get_object());
  if (kind != RowKind::kVllm && kind != RowKind::kSglang) {
    return invalid_argument(
        where +
        ": a JSON object of no tool that is known: expected the keys of vLLM's or "
        "SGLang's results, such as 'request_throughput' and 'mean_ttft_ms'"
    );
  }
  const ResultFormat format =
      kind == RowKind::kVllm ? ResultFormat::kVllmJson : ResultFormat::kSglangJsonl;
  if (!file.rows.empty() && format != file.format) {
    return invalid_argument(
        where + ": results of another tool than above: expected one tool a file"
    );
  }
  if (file.rows.size() >= kImportedRowsMax) {
    return invalid_argument(fmt::format("{}: more than {} results", where, kImportedRowsMax));
  }
  file.format = format;
  Fields fields(value.get_object(), where);
  Result<ImportedRow> row =
      kind == RowKind::kVllm ? import_vllm_row(fields) : import_sglang_row(fields);
  if (!row) return row.error();
  row->line = line;
  file.rows.push_back(*std::move(row));
  return {};
}

Result<ImportedFile> import_lines(std::string_view text, const std::string& name) {
  ImportedFile file;
  int64_t line = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<json::value> value = parse_lenient(one);
    if (!value) return in_file(name, fmt::format("line {}: {}", line, value.error().message));
    const Result<void> added = add_client_row(*value, line, file);
    if (!added) return in_file(name, added.error().message);
  }
  return file;
}

Result<ImportedFile> import_document(const json::value& value, const std::string& name) {
  ImportedFile file;
  const json::object* object = value.if_object();
  if (object != nullptr && object->contains("benchmarks")) {
    Result<std::vector<ImportedRow>> rows = import_guidellm(value);
    if (!rows) return in_file(name, rows.error().message);
    file = {.format = ResultFormat::kGuidellmJson, .rows = *std::move(rows)};
    if (file.rows.empty()) return in_file(name, "'benchmarks' is empty: expected at least one");
    return file;
  }
  // A result that was written over several lines, or some of them in an array.
  const json::array* array = value.if_array();
  const json::array alone = array == nullptr ? json::array{value} : json::array();
  for (const json::value& one : array == nullptr ? alone : *array) {
    const Result<void> added = add_client_row(one, 1, file);
    if (!added) return in_file(name, added.error().message);
  }
  if (file.rows.empty()) return in_file(name, "an empty array: expected at least one result");
  return file;
}

// A first line that is an object by itself makes it lines; else it is one document.
Result<ImportedFile> import_json(std::string_view text, const std::string& name) {
  const std::string_view first = text.substr(0, std::min(text.find('\n'), text.size()));
  if (Result<json::value> line = parse_lenient(first); line && line->is_object()) {
    const RowKind kind = row_kind(line->get_object());
    if (kind == RowKind::kMillrace) return import_records(text, name);
    if (!has(line->get_object(), "benchmarks")) return import_lines(text, name);
  }
  Result<json::value> document = parse_lenient(text);
  if (!document) return in_file(name, document.error().message);
  return import_document(*document, name);
}

}  // namespace

Result<ImportedFile> import_results(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return in_file(name, "empty: expected results");
  if (text[start] == '{' || text[start] == '[') {
    return import_json(text.substr(start), name);
  }
  return import_markdown(text, name);
}

}  // namespace millrace::bench
