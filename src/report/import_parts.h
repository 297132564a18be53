// The parts of import_results(): one reader per kind of file. Each gets the whole text or the
// values already parsed, and says which line is wrong and what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "report/import.h"

namespace millrace::bench {

// More rows than this are no report.
inline constexpr size_t kImportedRowsMax = 100'000;

// What one JSON object says, under the tools' names. Remembers the first thing that is wrong, so
// that a row is read in one go and checked once.
class Fields {
 public:
  // `where` names the place in messages: "line 3".
  Fields(const json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // none: not there, or null.
  std::optional<double> number(std::string_view key);
  std::optional<int64_t> count(std::string_view key);
  std::string text(std::string_view key);
  // As number; "inf" and "trace" are words for no limit.
  std::optional<double> rate(std::string_view key);
  const json::object* object(std::string_view key);

  const json::object& all() const { return object_; }
  const std::string& where() const { return where_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  const json::value* find(std::string_view key) const;
  void fail(std::string_view key, std::string_view expected, const json::value& found);

  const json::object& object_;  // borrowed
  std::string where_;
  std::optional<Error> error_;
};

// From the keys "mean_X_ms", "median_X_ms", "std_X_ms" and "pNN_X_ms"; none: no mean. `count`: of
// its samples, if that is known.
std::optional<Distribution> read_flat_distribution(
    Fields& fields, std::string_view metric, std::optional<int64_t> count
);

// "20250414-165148" as UTC; 0: it is no such date.
int64_t parse_compact_date(std::string_view text);

Result<ImportedRow> import_vllm_row(Fields& fields);
Result<ImportedRow> import_sglang_row(Fields& fields);
// The whole document, of 0.1 and of 0.7.
Result<std::vector<ImportedRow>> import_guidellm(const json::value& report);

// Lines of markdown that hold a table of the given kind.
Result<ImportedFile> import_markdown(std::string_view text, const std::string& name);

}  // namespace millrace::bench
