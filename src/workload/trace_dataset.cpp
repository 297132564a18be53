// Traces of what real services were asked: "mooncake" and "timed_trace" (JSONL), "burstgpt" (CSV).
// Each request is due at its own time; its text is made up, equal where the trace says so.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "workload/arrivals.h"
#include "workload/dataset_kinds.h"
#include "workload/json_lines.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kBlockSalt = 0x626c6f636b, kOrderSalt = 0x6f72646572;
constexpr int64_t kMooncakeBlockSize = 512;  // tokens of one hash id
constexpr int64_t kTimedTraceBlockSize = 16;

struct TraceRow {
  double seconds = 0.0;
  int64_t input_len = 0, output_len = 0;
  std::vector<uint64_t> hash_ids;  // of blocks; empty: nothing in common with others
  std::string prompt;              // instead of input_len, where not empty
};

// Requests by time, the first due at once.
class TraceDataset : public Dataset {
 public:
  TraceDataset(
      const DatasetOptions& options,
      WriterPtr writer,
      std::vector<TraceRow> rows,
      int64_t block_size
  )
      : options_(options),
        text_key_(run_keys(options).texts),
        writer_(std::move(writer)),
        rows_(std::move(rows)),
        block_size_(block_size) {
    std::stable_sort(rows_.begin(), rows_.end(), [](const TraceRow& a, const TraceRow& b) {
      return a.seconds < b.seconds;
    });
    size_ = std::min(options.num_sessions.value_or(rows_.size()), rows_.size());
  }

  std::optional<size_t> size() const override { return size_; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(index < size_, "a session beyond the last");
    const TraceRow& row = rows_[index];
    Result<CountedText> text = row.prompt.empty() ? made_up(row, index) : given(row);
    if (!text) return text.error();
    Result<PlannedRequest> request = writer_->plan(*std::move(text), options_.sends_token_ids);
    if (!request) return request.error();
    request->num_output_tokens = row.output_len;
    request->at = offset_of(row);
    PlannedSession session;
    session.turns.push_back(*std::move(request));
    return session;
  }

 private:
  std::chrono::nanoseconds offset_of(const TraceRow& row) const {
    const double nanos = (row.seconds - rows_.front().seconds) * options_.mooncake_slowdown * 1e9;
    if (!(nanos < static_cast<double>(kArrivalMax.count()))) return kArrivalMax;
    return std::chrono::nanoseconds(std::llround(nanos));
  }

  Result<CountedText> given(const TraceRow& row) const {
    Result<std::vector<TokenId>> ids = writer_->codec().encode(row.prompt);
    if (!ids) return ids.error();
    return CountedText{row.prompt, static_cast<int64_t>(ids->size())};
  }

  // Each hash id stands for one text of block_size tokens; what the server adds is a part of the
  // first block, so that blocks of the server's cache are the same where blocks of the trace are.
  Result<CountedText> made_up(const TraceRow& row, size_t index) const {
    int64_t left = writer_->without_added(row.input_len, options_.sends_token_ids);
    int64_t room = block_size_ - (row.input_len - left);
    std::vector<RandomRun> runs;
    for (const uint64_t hash_id : row.hash_ids) {
      const int64_t num_tokens = std::min(left, room);
      runs.push_back({key_of(key_of(text_key_, kBlockSalt), hash_id), num_tokens});
      left -= num_tokens;
      room = block_size_;
    }
    if (left > 0) runs.push_back({key_of(text_key_, index), left});
    return writer_->write(runs);
  }

  DatasetOptions options_;
  uint64_t text_key_;
  WriterPtr writer_;
  std::vector<TraceRow> rows_;
  int64_t block_size_;
  size_t size_ = 0;
};

Error missing(std::string_view key) {
  return invalid_argument(fmt::format("'{}' is missing", key), std::string(key));
}

Result<int64_t> need_count(const json::object& line, std::string_view key, int64_t low) {
  Result<std::optional<int64_t>> count = read_count(line, key, kPromptTokensMax);
  if (!count) return count.error();
  if (!*count) return missing(key);
  if (**count < low) {
    return invalid_argument(
        fmt::format("'{}' is {}, expected {} or more", key, **count, low), std::string(key)
    );
  }
  return **count;
}

Result<std::vector<uint64_t>> hash_ids_of(const json::object& line) {
  std::vector<uint64_t> ids;
  const json::value* value = line.if_contains("hash_ids");
  if (value == nullptr || value->is_null()) return ids;
  const json::array* list = value->if_array();
  if (list == nullptr) return invalid_argument("'hash_ids' is not a list", "hash_ids");
  for (const json::value& id : *list) {
    if (id.is_int64() && id.get_int64() >= 0) {
      ids.push_back(static_cast<uint64_t>(id.get_int64()));
    } else if (id.is_uint64()) {
      ids.push_back(id.get_uint64());
    } else {
      return invalid_argument("'hash_ids' has an id that is no whole number from 0", "hash_ids");
    }
  }
  return ids;
}

// How the two JSONL traces differ.
struct TraceFormat {
  double seconds_per_unit = 1.0;  // of "timestamp"
  int64_t block_size = 0;
  bool needs_hash_ids = false;
};

Result<void> read_lengths(const json::object& line, const TraceFormat& format, TraceRow& row) {
  Result<std::optional<std::string>> prompt = read_text(line, "prompt");
  if (!prompt) return prompt.error();
  if (*prompt && !(*prompt)->empty()) {
    row.prompt = **std::move(prompt);
    return {};
  }
  Result<int64_t> input_len = need_count(line, "input_length", 1);
  if (!input_len) return input_len.error();
  row.input_len = *input_len;
  Result<std::vector<uint64_t>> ids = hash_ids_of(line);
  if (!ids) return ids.error();
  row.hash_ids = *std::move(ids);
  if (row.hash_ids.empty() && !format.needs_hash_ids) return {};
  const int64_t num_blocks = div_ceil(row.input_len, format.block_size);
  if (static_cast<int64_t>(row.hash_ids.size()) != num_blocks) {
    return invalid_argument(
        fmt::format(
            "'hash_ids' has {} ids, expected {} for {} tokens in blocks of {}",
            row.hash_ids.size(),
            num_blocks,
            row.input_len,
            format.block_size
        ),
        "hash_ids"
    );
  }
  return {};
}

Result<TraceRow> read_row(const json::object& line, const TraceFormat& format) {
  TraceRow row;
  Result<std::optional<double>> timestamp = read_number(line, "timestamp");
  if (!timestamp) return timestamp.error();
  if (!*timestamp) return missing("timestamp");
  row.seconds = **timestamp * format.seconds_per_unit;
  Result<int64_t> output_len = need_count(line, "output_length", 1);
  if (!output_len) return output_len.error();
  row.output_len = *output_len;
  Result<void> lengths = read_lengths(line, format, row);
  if (!lengths) return lengths.error();
  return row;
}

DatasetResult make_trace(
    const DatasetOptions& options, WriterPtr writer, std::vector<TraceRow> rows, int64_t block_size
) {
  if (rows.empty()) return invalid_argument(options.path + " has no requests", options.path);
  return std::unique_ptr<Dataset>(
      std::make_unique<TraceDataset>(options, std::move(writer), std::move(rows), block_size)
  );
}

DatasetResult make_json_trace(
    const DatasetOptions& options, WriterPtr writer, const TraceFormat& format
) {
  std::vector<TraceRow> rows;
  const auto take = [&](const json::object& line, size_t) -> Result<void> {
    Result<TraceRow> row = read_row(line, format);
    if (!row) return row.error();
    rows.push_back(*std::move(row));
    return {};
  };
  if (Result<void> read = for_each_json_line(options.path, take); !read) return read.error();
  return make_trace(options, std::move(writer), std::move(rows), format.block_size);
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

template <class T>
Result<T> parse_cell(std::string_view name, std::string_view cell, T max) {
  T value{};
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value >= T{0}) ||
      !(value <= max)) {
    return invalid_argument(
        fmt::format("'{}' is '{}', expected a number from 0 to {}", name, cell.substr(0, 60), max)
    );
  }
  return value;
}

// Reads the rows that vLLM uses: GPT-4's, with an answer.
class BurstgptReader {
 public:
  Result<void> take(std::string_view line) {
    const std::vector<std::string_view> cells = split(line);
    if (columns_.empty()) return take_header(cells);
    if (cells.size() < num_cells_) {
      return invalid_argument(fmt::format("{} cells, expected {}", cells.size(), num_cells_));
    }
    if (cells[columns_[1]] != "GPT-4") return {};
    Result<double> seconds = parse_cell("Timestamp", cells[columns_[0]], 1e12);
    if (!seconds) return seconds.error();
    Result<int64_t> input = parse_cell("Request tokens", cells[columns_[2]], kPromptTokensMax);
    if (!input) return input.error();
    Result<int64_t> output = parse_cell("Response tokens", cells[columns_[3]], kPromptTokensMax);
    if (!output) return output.error();
    if (*output == 0 || *input == 0) return {};
    rows_.push_back(
        {.seconds = *seconds,
         .input_len = *input,
         .output_len = *output,
         .hash_ids = {},
         .prompt = {}}
    );
    return {};
  }

  std::vector<TraceRow>& rows() { return rows_; }

 private:
  Result<void> take_header(const std::vector<std::string_view>& cells) {
    for (const std::string_view name :
         {"Timestamp", "Model", "Request tokens", "Response tokens"}) {
      const auto found = std::find(cells.begin(), cells.end(), name);
      if (found == cells.end()) {
        return invalid_argument(fmt::format("expected a column '{}'", name));
      }
      columns_.push_back(static_cast<size_t>(found - cells.begin()));
    }
    num_cells_ = cells.size();
    return {};
  }

  std::vector<size_t> columns_;  // of timestamp, model, request tokens, response tokens
  size_t num_cells_ = 0;
  std::vector<TraceRow> rows_;
};

}  // namespace

DatasetResult make_mooncake_dataset(const DatasetOptions& options, WriterPtr writer) {
  constexpr double kMilliseconds = 1e-3;
  return make_json_trace(
      options,
      std::move(writer),
      {.seconds_per_unit = kMilliseconds, .block_size = kMooncakeBlockSize, .needs_hash_ids = true}
  );
}

DatasetResult make_timed_trace_dataset(const DatasetOptions& options, WriterPtr writer) {
  return make_json_trace(
      options, std::move(writer), {.seconds_per_unit = 1.0, .block_size = kTimedTraceBlockSize}
  );
}

DatasetResult make_burstgpt_dataset(const DatasetOptions& options, WriterPtr writer) {
  BurstgptReader reader;
  Result<void> read =
      for_each_line(options.path, [&](std::string_view line, size_t) { return reader.take(line); });
  if (!read) return read.error();
  // vLLM draws as many as it needs from all over the trace.
  std::vector<TraceRow>& rows = reader.rows();
  Rng rng(key_of(run_keys(options).lengths, kOrderSalt));
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[rng.below(i)]);
  rows.resize(std::min(options.num_sessions.value_or(rows.size()), rows.size()));
  return make_trace(options, std::move(writer), std::move(rows), kTimedTraceBlockSize);
}

}  // namespace millrace::bench
