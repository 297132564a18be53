// "random" and "random-ids": prompts of an exact length without meaning.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "workload/dataset_kinds.h"
#include "workload/lengths.h"

namespace millrace::bench {
namespace {

constexpr int64_t kInputLen = 1024, kOutputLen = 128;  // vLLM's defaults
constexpr uint64_t kPrefixSalt = 0x707265666978;
constexpr uint64_t kInputSalt = 1, kOutputSalt = 2;

struct LengthSamplers {
  LengthSampler input, output;
};

Result<LengthSamplers> make_samplers(const DatasetOptions& options, const PromptWriter& writer) {
  const int64_t num_added =
      options.sends_token_ids ? 0 : static_cast<int64_t>(writer.codec().num_added_tokens());
  Result<LengthSampler> input = LengthSampler::make(
      {.flag = "--input-len",
       .length = options.input_len.value_or(kInputLen),
       .range_ratio = options.range_ratio.value_or(0.0),
       .range_ratio_mode = options.range_ratio_mode,
       .spread = options.input_spread,
       .num_added_tokens = num_added,
       .length_min = num_added + (options.prefix_len > 0 ? 0 : 1)}
  );
  if (!input) return input.error();
  Result<LengthSampler> output = LengthSampler::make(
      {.flag = "--output-len",
       .length = options.output_len.value_or(kOutputLen),
       .range_ratio = options.range_ratio.value_or(0.0),
       .range_ratio_mode = options.range_ratio_mode,
       .spread = options.output_spread}
  );
  if (!output) return output.error();
  if (options.prefix_len < 0 || options.prefix_len > kPromptTokensMax - input->high()) {
    return invalid_argument(
        "--random-prefix-len: the prompt would have more tokens than any model takes, or fewer "
        "than none",
        "--random-prefix-len"
    );
  }
  return LengthSamplers{*std::move(input), *std::move(output)};
}

// What random and random-ids have in common: the turns of a session and their lengths.
class DrawnDataset : public Dataset {
 public:
  DrawnDataset(const DatasetOptions& options, WriterPtr writer, LengthSamplers samplers)
      : options_(options),
        keys_(run_keys(options)),
        writer_(std::move(writer)),
        samplers_(samplers) {}

  std::optional<size_t> size() const override { return options_.num_sessions; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(!options_.num_sessions || index < *options_.num_sessions, "a session beyond the last");
    PlannedSession session;
    const uint64_t text_key = key_of(keys_.texts, index);
    const uint64_t length_key = key_of(keys_.lengths, index);
    for (int64_t turn = 0; turn < options_.num_turns; ++turn) {
      const uint64_t lengths = key_of(length_key, static_cast<uint64_t>(turn));
      const Turn asked{
          .key = key_of(text_key, static_cast<uint64_t>(turn)),
          .index = index,
          .is_first = turn == 0,
          .num_tokens = samplers_.input.draw(key_of(lengths, kInputSalt))};
      Result<PlannedRequest> request = prompt(asked);
      if (!request) return request.error();
      request->num_output_tokens = samplers_.output.draw(key_of(lengths, kOutputSalt));
      if (turn > 0) request->think_time = options_.think_time;
      session.turns.push_back(*std::move(request));
    }
    return session;
  }

 protected:
  struct Turn {
    uint64_t key = 0;
    size_t index = 0;
    bool is_first = true;
    int64_t num_tokens = 0;  // with those that the server adds, without the prefix
  };

  // Of the turn's prompt; only the first has the prefix and what the server adds.
  virtual Result<PlannedRequest> prompt(const Turn& turn) const = 0;

  RandomRun prefix() const { return {key_of(keys_.texts, kPrefixSalt), options_.prefix_len}; }
  int64_t num_own_tokens(const Turn& turn) const {
    return writer_->without_added(turn.num_tokens, options_.sends_token_ids || !turn.is_first);
  }
  // The count of a later turn is of what it adds.
  Result<PlannedRequest> plan(CountedText text, const Turn& turn) const {
    if (turn.is_first || options_.sends_token_ids) {
      return writer_->plan(std::move(text), options_.sends_token_ids);
    }
    PlannedRequest request;
    request.num_prompt_tokens = text.num_tokens;
    request.prompt = std::move(text.text);
    return request;
  }

  DatasetOptions options_;
  RunKeys keys_;
  WriterPtr writer_;
  LengthSamplers samplers_;
};

class RandomDataset : public DrawnDataset {
 public:
  using DrawnDataset::DrawnDataset;

 private:
  Result<PlannedRequest> prompt(const Turn& turn) const override {
    const RandomRun own{turn.key, num_own_tokens(turn)};
    const std::vector<RandomRun> runs =
        turn.is_first ? std::vector<RandomRun>{prefix(), own} : std::vector<RandomRun>{own};
    Result<CountedText> text = writer_->write(runs, !turn.is_first);
    if (!text) return text.error();
    return plan(*std::move(text), turn);
  }
};

class RandomIdsDataset : public DrawnDataset {
 public:
  RandomIdsDataset(
      const DatasetOptions& options,
      WriterPtr writer,
      LengthSamplers samplers,
      std::vector<TokenId> prefix_ids
  )
      : DrawnDataset(options, std::move(writer), samplers), prefix_ids_(std::move(prefix_ids)) {}

 private:
  Result<PlannedRequest> prompt(const Turn& turn) const override {
    std::vector<TokenId> ids;
    if (turn.is_first) ids = prefix_ids_;
    const int64_t num_tokens = static_cast<int64_t>(ids.size()) + num_own_tokens(turn);
    if (options_.nonce) {
      if (Result<void> done = append_nonce(turn, ids); !done) return done.error();
    }
    append_counted(turn, static_cast<size_t>(num_tokens), ids);
    if (options_.sends_token_ids) {
      PlannedRequest request;
      request.num_prompt_tokens = num_tokens;
      request.prompt = std::move(ids);
      return request;
    }
    Result<CountedText> text = writer_->fit(std::move(ids), num_tokens, turn.key);
    if (!text) return text.error();
    return plan(*std::move(text), turn);
  }

  // Counting up, two requests of a thousand start alike every few runs.
  Result<void> append_nonce(const Turn& turn, std::vector<TokenId>& ids) const {
    const RandomRun run{turn.key, std::min(num_own_tokens(turn), writer_->num_telling_tokens())};
    Result<CountedText> text = writer_->write({{run}}, !ids.empty() || !turn.is_first);
    if (!text) return text.error();
    Result<std::vector<TokenId>> nonce = writer_->codec().encode(text->text);
    if (!nonce) return nonce.error();
    ids.insert(ids.end(), nonce->begin(), nonce->end());
    return {};
  }

  // vLLM's and SGLang's (offset + index + j) % vocabulary, over the ids that may be drawn.
  void append_counted(const Turn& turn, size_t num_tokens, std::vector<TokenId>& ids) const {
    const std::vector<TokenId>& allowed = writer_->allowed_ids();
    const uint64_t offset = random_bits(turn.key, 0) % allowed.size();
    ids.resize(std::min(ids.size(), num_tokens));
    for (uint64_t j = 0; ids.size() < num_tokens; ++j) {
      ids.push_back(allowed[(offset + turn.index + j) % allowed.size()]);
    }
  }

  std::vector<TokenId> prefix_ids_;
};

}  // namespace

DatasetResult make_random_dataset(const DatasetOptions& options, WriterPtr writer) {
  Result<LengthSamplers> samplers = make_samplers(options, *writer);
  if (!samplers) return samplers.error();
  return std::unique_ptr<Dataset>(
      std::make_unique<RandomDataset>(options, std::move(writer), *std::move(samplers))
  );
}

DatasetResult make_random_ids_dataset(const DatasetOptions& options, WriterPtr writer) {
  Result<LengthSamplers> samplers = make_samplers(options, *writer);
  if (!samplers) return samplers.error();
  if (writer->allowed_ids().empty()) {
    return unsupported("'random-ids' needs a vocabulary, and the server does not tell its own");
  }
  const RandomRun prefix{key_of(run_keys(options).texts, kPrefixSalt), options.prefix_len};
  Result<CountedText> prefix_text = writer->write({{prefix}});
  if (!prefix_text) return prefix_text.error();
  Result<std::vector<TokenId>> prefix_ids = writer->codec().encode(prefix_text->text);
  if (!prefix_ids) return prefix_ids.error();
  return std::unique_ptr<Dataset>(std::make_unique<RandomIdsDataset>(
      options, std::move(writer), *std::move(samplers), *std::move(prefix_ids)
  ));
}

}  // namespace millrace::bench
