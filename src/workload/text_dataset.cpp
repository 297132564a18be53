// Prompts out of a text file: "emulated" (guidellm's slices of a long text) and "sonnet" (vLLM's
// lines of a poem).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/rng.h"
#include "workload/dataset_kinds.h"
#include "workload/json_lines.h"
#include "workload/lengths.h"

namespace millrace::bench {
namespace {

constexpr size_t kTextSizeMax = size_t{256} << 20;
constexpr uint64_t kPlaceSalt = 0x706c616365, kInputSalt = 1, kOutputSalt = 2;

// The beginnings of the words of `text`, where a slice may begin.
std::vector<size_t> word_starts(std::string_view text) {
  std::vector<size_t> starts;
  bool is_behind_space = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_space = text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r';
    if (!is_space && is_behind_space) starts.push_back(i);
    is_behind_space = is_space;
  }
  return starts;
}

class EmulatedDataset : public Dataset {
 public:
  EmulatedDataset(
      const DatasetOptions& options,
      WriterPtr writer,
      std::string text,
      LengthSampler input,
      LengthSampler output
  )
      : options_(options),
        keys_(run_keys(options)),
        writer_(std::move(writer)),
        text_(std::move(text)),
        starts_(word_starts(text_)),
        input_(input),
        output_(output) {}

  std::optional<size_t> size() const override { return options_.num_sessions; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(!options_.num_sessions || index < *options_.num_sessions, "a session beyond the last");
    PlannedSession session;
    for (int64_t turn = 0; turn < options_.num_turns; ++turn) {
      const uint64_t place = static_cast<uint64_t>(turn);
      const uint64_t lengths = key_of(key_of(keys_.lengths, index), place);
      const uint64_t key = key_of(key_of(keys_.texts, index), place);
      Result<PlannedRequest> request =
          slice(key, input_.draw(key_of(lengths, kInputSalt)), turn == 0);
      if (!request) return request.error();
      request->num_output_tokens = output_.draw(key_of(lengths, kOutputSalt));
      if (turn > 0) request->think_time = options_.think_time;
      session.turns.push_back(*std::move(request));
    }
    return session;
  }

  bool is_empty() const { return starts_.empty(); }

 private:
  // With a nonce, a few words that no other prompt has stand before the slice.
  Result<PlannedRequest> slice(uint64_t key, int64_t length, bool is_first) const {
    const bool adds_none = options_.sends_token_ids || !is_first;
    const int64_t num_tokens = writer_->without_added(length, adds_none);
    std::string text;
    if (options_.nonce) {
      const RandomRun run{key, std::min(num_tokens, writer_->num_telling_tokens())};
      Result<CountedText> telling = writer_->write({{run}}, !is_first);
      if (!telling) return telling.error();
      text = telling->text + " ";
    }
    const size_t start = starts_[random_bits(key, kPlaceSalt) % starts_.size()];
    Result<std::vector<TokenId>> ids = tokens_from(text, start, static_cast<size_t>(num_tokens));
    if (!ids) return ids.error();
    Result<CountedText> fitted = writer_->fit(*std::move(ids), num_tokens, key);
    if (!fitted) return fitted.error();
    Result<PlannedRequest> request = writer_->plan(*std::move(fitted), options_.sends_token_ids);
    if (request && adds_none && !options_.sends_token_ids) {
      request->num_prompt_tokens -= static_cast<int64_t>(writer_->codec().num_added_tokens());
    }
    return request;
  }

  // The first `num_tokens` of `head` and the text from `start` on, which begins again at its end.
  Result<std::vector<TokenId>> tokens_from(const std::string& head, size_t start, size_t num_tokens)
      const {
    constexpr size_t kBytesPerToken = 6;  // of English some four
    std::string text = head;
    const size_t wanted = std::min(num_tokens * kBytesPerToken + 64, kTextSizeMax);
    while (text.size() < wanted) {
      text += std::string_view(text_).substr(start, wanted - text.size());
      text += ' ';
      start = starts_.front();
    }
    Result<std::vector<TokenId>> ids = writer_->codec().encode(text);
    if (ids && ids->size() > num_tokens) ids->resize(num_tokens);
    return ids;
  }

  DatasetOptions options_;
  RunKeys keys_;
  WriterPtr writer_;
  std::string text_;
  std::vector<size_t> starts_;
  LengthSampler input_, output_;
};

// vLLM's SonnetDataset.
constexpr std::string_view kSonnetTask = "Pick as many lines as you can from these poem lines:\n";
constexpr int64_t kSonnetPrefixLen = 200, kSonnetInputLen = 550, kSonnetOutputLen = 150;

struct SonnetPlan {
  std::vector<std::string> lines;  // each with its end
  size_t num_prefix_lines = 0, num_lines = 0;
  int64_t input_len = 0, output_len = 0;
};

class SonnetDataset : public Dataset {
 public:
  SonnetDataset(const DatasetOptions& options, WriterPtr writer, SonnetPlan plan)
      : options_(options),
        text_key_(run_keys(options).texts),
        writer_(std::move(writer)),
        plan_(std::move(plan)) {}

  std::optional<size_t> size() const override { return options_.num_sessions; }

  // The whole prompt has input_len tokens at most, as in vLLM; its length is the true one.
  Result<PlannedSession> session(size_t index) const override {
    CHECK(!options_.num_sessions || index < *options_.num_sessions, "a session beyond the last");
    const uint64_t key = key_of(text_key_, index);
    std::vector<std::string_view> lines;
    for (size_t i = 0; i < plan_.num_lines; ++i) {
      const size_t drawn = random_bits(key, i) % plan_.lines.size();
      lines.push_back(plan_.lines[i < plan_.num_prefix_lines ? i % plan_.lines.size() : drawn]);
    }
    Result<PlannedRequest> fitted = longest_that_fits(std::move(lines));
    if (!fitted) return fitted.error();
    fitted->num_output_tokens = plan_.output_len;
    PlannedSession session;
    session.turns.push_back(*std::move(fitted));
    return session;
  }

 private:
  Result<PlannedRequest> longest_that_fits(std::vector<std::string_view> lines) const {
    while (true) {
      std::string text(kSonnetTask);
      for (const std::string_view line : lines) text += line;
      Result<std::vector<TokenId>> ids = writer_->codec().encode(text);
      if (!ids) return ids.error();
      const int64_t num_tokens = static_cast<int64_t>(ids->size());
      Result<PlannedRequest> request =
          writer_->plan({std::move(text), num_tokens}, options_.sends_token_ids);
      if (!request || request->num_prompt_tokens <= plan_.input_len || lines.empty()) {
        return request;
      }
      lines.pop_back();
    }
  }

  DatasetOptions options_;
  uint64_t text_key_;
  WriterPtr writer_;
  SonnetPlan plan_;
};

Result<std::vector<std::string>> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  Result<void> read = for_each_line(path, [&](std::string_view line, size_t) -> Result<void> {
    lines.push_back(std::string(line) + "\n");
    return {};
  });
  if (!read) return read.error();
  if (lines.empty()) return invalid_argument(path + " has no lines", path);
  return lines;
}

}  // namespace

DatasetResult make_emulated_dataset(const DatasetOptions& options, WriterPtr writer) {
  const int64_t num_added =
      options.sends_token_ids ? 0 : static_cast<int64_t>(writer->codec().num_added_tokens());
  if (!options.input_len || !options.output_len) {
    return invalid_argument(
        fmt::format("'{}' needs --input-len and --output-len", options.name), "--input-len"
    );
  }
  Result<LengthSampler> input = LengthSampler::make(
      {.flag = "--input-len",
       .length = *options.input_len,
       .range_ratio_mode = {},
       .spread = options.input_spread,
       .length_min = num_added + 1}
  );
  if (!input) return input.error();
  Result<LengthSampler> output = LengthSampler::make(
      {.flag = "--output-len",
       .length = *options.output_len,
       .range_ratio_mode = {},
       .spread = options.output_spread}
  );
  if (!output) return output.error();
  Result<std::string> text = read_file(options.path, kTextSizeMax);
  if (!text) return text.error();
  auto dataset = std::make_unique<EmulatedDataset>(
      options, std::move(writer), *std::move(text), *std::move(input), *std::move(output)
  );
  if (dataset->is_empty()) return invalid_argument(options.path + " has no words", options.path);
  return std::unique_ptr<Dataset>(std::move(dataset));
}

DatasetResult make_sonnet_dataset(const DatasetOptions& options, WriterPtr writer) {
  Result<std::vector<std::string>> lines = read_lines(options.path);
  if (!lines) return lines.error();
  std::string all;
  for (const std::string& line : *lines) all += line;
  Result<std::vector<TokenId>> ids = writer->codec().encode(all);
  if (!ids) return ids.error();
  Result<std::vector<TokenId>> task = writer->codec().encode(kSonnetTask);
  if (!task) return task.error();
  const double tokens_per_line =
      std::max(static_cast<double>(ids->size()) / static_cast<double>(lines->size()), 1e-3);

  SonnetPlan plan{
      .input_len = options.input_len.value_or(kSonnetInputLen),
      .output_len = options.output_len.value_or(kSonnetOutputLen)};
  const int64_t prefix_len = options.prefix_len > 0 ? options.prefix_len : kSonnetPrefixLen;
  const int64_t num_task_tokens = static_cast<int64_t>(task->size());
  if (plan.input_len <= num_task_tokens || plan.input_len > kPromptTokensMax ||
      prefix_len > plan.input_len || plan.output_len < 1) {
    return invalid_argument(
        fmt::format(
            "'sonnet' asks in {} tokens: --input-len {} must be more, and at least the common "
            "{} of --random-prefix-len",
            num_task_tokens,
            plan.input_len,
            prefix_len
        ),
        "--input-len"
    );
  }
  const auto num_lines = [&](int64_t length) {
    const double own = static_cast<double>(std::max<int64_t>(length - num_task_tokens, 0));
    return static_cast<size_t>(std::llround(own / tokens_per_line));
  };
  plan.lines = *std::move(lines);
  plan.num_lines = num_lines(plan.input_len);
  plan.num_prefix_lines = num_lines(prefix_len);
  return std::unique_ptr<Dataset>(
      std::make_unique<SonnetDataset>(options, std::move(writer), std::move(plan))
  );
}

}  // namespace millrace::bench
