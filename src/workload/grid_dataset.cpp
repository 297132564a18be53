// "grid": the published B/I/H/O workload. A prompt of I tokens whose first H are those of every
// other prompt; then comes a word that no other has.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "workload/dataset_kinds.h"

namespace millrace::bench {
namespace {

// A text whose repetitions are one token each.
struct Unit {
  std::string first;  // of a run of them
  std::string next;   // the others

  std::string repeated(int64_t count) const {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += i == 0 ? first : next;
    return text;
  }
};

Result<int64_t> count_of(const TokenCodec& codec, const std::string& text) {
  Result<std::vector<TokenId>> ids = codec.encode(text);
  if (!ids) return ids.error();
  return static_cast<int64_t>(ids->size());
}

Result<bool> is_one_token_each(const TokenCodec& codec, const Unit& unit, int64_t count_max) {
  for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{8}, count_max}) {
    Result<int64_t> found = count_of(codec, unit.repeated(count));
    if (!found) return found.error();
    if (*found != count) return false;
  }
  return true;
}

// "hi" as in the published grid, or else a word that this tokenizer repeats as one token each.
Result<Unit> find_unit(const PromptWriter& writer, int64_t count_max) {
  std::vector<Unit> candidates = {{"hi", "hi"}, {"hi", " hi"}, {"the", " the"}};
  const WordPool& words = writer.words();
  for (size_t i = 0; i < std::min<size_t>(words.num_starts(), 8); ++i) {
    const std::string start(words.start(i));
    candidates.push_back({start, start.starts_with(' ') ? start : " " + start});
  }
  for (Unit& unit : candidates) {
    Result<bool> is_good = is_one_token_each(writer.codec(), unit, std::max<int64_t>(count_max, 8));
    if (!is_good) return is_good.error();
    if (*is_good) return std::move(unit);
  }
  return unsupported("'grid' finds no word that this tokenizer repeats as one token each");
}

class GridDataset : public Dataset {
 public:
  GridDataset(const DatasetOptions& options, WriterPtr writer, Unit unit)
      : options_(options),
        text_key_(run_keys(options).texts),
        writer_(std::move(writer)),
        unit_(std::move(unit)) {}

  std::optional<size_t> size() const override { return options_.num_sessions; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(!options_.num_sessions || index < *options_.num_sessions, "a session beyond the last");
    const int64_t num_tokens =
        writer_->without_added(*options_.input_len, options_.sends_token_ids);
    const int64_t num_shared = writer_->without_added(options_.hit_len, options_.sends_token_ids);
    Result<CountedText> text = prompt(key_of(text_key_, index), num_tokens, num_shared);
    if (!text) return text.error();
    Result<PlannedRequest> request = writer_->plan(*std::move(text), options_.sends_token_ids);
    if (!request) return request.error();
    request->num_output_tokens = *options_.output_len;
    PlannedSession session;
    session.turns.push_back(*std::move(request));
    return session;
  }

 private:
  Result<CountedText> prompt(uint64_t key, int64_t num_tokens, int64_t num_shared) const {
    const int64_t num_words = std::min(num_tokens - num_shared, writer_->num_telling_tokens());
    // At a text's start the first word stands without its space, which not every word can.
    Result<CountedText> own = writer_->write({{{key, num_words}}}, num_shared > 0);
    if (!own) return own.error();
    // Where a space ends a run, the next may be a token more or less.
    int64_t num_behind = num_tokens - num_shared - num_words;
    for (int round = 0; round < 8; ++round) {
      std::string text = unit_.repeated(num_shared) + own->text;
      if (num_behind > 0) (text += ' ') += unit_.repeated(num_behind);
      Result<int64_t> found = count_of(writer_->codec(), text);
      if (!found) return found.error();
      if (*found == num_tokens) return CountedText{std::move(text), num_tokens};
      num_behind = std::max<int64_t>(num_behind + num_tokens - *found, 0);
    }
    return unsupported(
        fmt::format("'grid' finds no prompt of exactly {} tokens in this tokenizer", num_tokens)
    );
  }

  DatasetOptions options_;
  uint64_t text_key_;
  WriterPtr writer_;
  Unit unit_;
};

}  // namespace

DatasetResult make_grid_dataset(const DatasetOptions& options, WriterPtr writer) {
  if (!options.input_len || !options.output_len) {
    return invalid_argument("'grid' needs --input-len and --output-len", "--input-len");
  }
  const int64_t num_added =
      options.sends_token_ids ? 0 : static_cast<int64_t>(writer->codec().num_added_tokens());
  if (*options.input_len <= num_added || *options.input_len > kPromptTokensMax) {
    return invalid_argument(
        fmt::format(
            "--input-len is {}, expected from {} to {}",
            *options.input_len,
            num_added + 1,
            kPromptTokensMax
        ),
        "--input-len"
    );
  }
  if (options.hit_len < 0 || options.hit_len > *options.input_len) {
    return invalid_argument(
        fmt::format(
            "the hit length is {}, expected from 0 to the input's {}",
            options.hit_len,
            *options.input_len
        ),
        "--hit-len"
    );
  }
  if (writer->words().is_empty()) {
    return unsupported("'grid' finds no words that are one token each in this tokenizer");
  }
  Result<Unit> unit = find_unit(*writer, *options.input_len);
  if (!unit) return unit.error();
  return std::unique_ptr<Dataset>(
      std::make_unique<GridDataset>(options, std::move(writer), *std::move(unit))
  );
}

}  // namespace millrace::bench
