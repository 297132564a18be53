// "sharegpt": the first question of each conversation of a ShareGPT file, with the length of its
// answer, dropped by vLLM's or by SGLang's rule.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/rng.h"
#include "workload/dataset_kinds.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kOrderSalt = 0x6f72646572, kAgainSalt = 0x616761696e;

struct Pair {
  std::string question, answer;
};

struct Kept {
  std::string question;
  int64_t num_prompt_tokens = 0, num_output_tokens = 0;
};

class SharegptDataset : public Dataset {
 public:
  SharegptDataset(
      const DatasetOptions& options, CodecPtr codec, std::vector<Kept> kept, size_t size
  )
      : again_key_(key_of(run_keys(options).lengths, kAgainSalt)),
        sends_token_ids_(options.sends_token_ids),
        codec_(std::move(codec)),
        kept_(std::move(kept)),
        size_(size) {}

  std::optional<size_t> size() const override { return size_; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(index < size_, "a session beyond the last");
    // vLLM draws among them again where more are asked for than there are.
    const size_t place =
        index < kept_.size() ? index : random_bits(again_key_, index) % kept_.size();
    const Kept& kept = kept_[place];
    PlannedRequest request;
    request.num_output_tokens = kept.num_output_tokens;
    request.num_prompt_tokens = kept.num_prompt_tokens;
    request.prompt = kept.question;
    if (sends_token_ids_) {
      Result<std::vector<TokenId>> ids = codec_->encode(kept.question);
      if (!ids) return ids.error();
      request.num_prompt_tokens = static_cast<int64_t>(ids->size());
      request.prompt = *std::move(ids);
    }
    PlannedSession session;
    session.turns.push_back(std::move(request));
    return session;
  }

 private:
  uint64_t again_key_;
  bool sends_token_ids_;
  CodecPtr codec_;
  std::vector<Kept> kept_;
  size_t size_;
};

// Which pairs are long enough, and short enough, for a benchmark.
class Rule {
 public:
  explicit Rule(const DatasetOptions& options)
      : is_vllm_(options.sharegpt_rule_vllm),
        output_len_(options.sharegpt_output_len ? options.sharegpt_output_len : options.output_len),
        context_len_(options.sharegpt_context_len) {}

  const std::optional<int64_t>& output_len() const { return output_len_; }

  bool keeps(int64_t num_prompt_tokens, int64_t num_output_tokens) const {
    const int64_t total = num_prompt_tokens + num_output_tokens;
    if (context_len_ && total > *context_len_) return false;
    if (!is_vllm_) return num_prompt_tokens >= 2 && num_output_tokens >= 2;
    const bool is_answer_long_enough = output_len_ || num_output_tokens >= 4;
    return num_prompt_tokens >= 4 && is_answer_long_enough && num_prompt_tokens <= 1024 &&
           total <= 2048;
  }

 private:
  bool is_vllm_;
  std::optional<int64_t> output_len_, context_len_;
};

const json::array* conversation_of(const json::value& entry) {
  const json::object* object = entry.if_object();
  if (object == nullptr) return nullptr;
  const json::value* turns = object->if_contains("conversations");
  if (turns == nullptr) turns = object->if_contains("conversation");
  return turns == nullptr ? nullptr : turns->if_array();
}

const json::string* value_of(const json::value& turn) {
  const json::object* object = turn.if_object();
  const json::value* value = object == nullptr ? nullptr : object->if_contains("value");
  return value == nullptr ? nullptr : value->if_string();
}

// Those with at least two turns; the first two of each.
Result<std::vector<Pair>> read_pairs(const std::string& path) {
  Result<json::value> document = read_json_file(path, {.allow_duplicate_keys = true});
  if (!document) return document.error();
  const json::array* entries = document->if_array();
  if (entries == nullptr) {
    return invalid_argument(path + ": expected a JSON array of conversations", path);
  }
  std::vector<Pair> pairs;
  for (size_t i = 0; i < entries->size(); ++i) {
    const json::array* turns = conversation_of((*entries)[i]);
    if (turns == nullptr || turns->size() < 2) continue;
    const json::string* question = value_of((*turns)[0]);
    const json::string* answer = value_of((*turns)[1]);
    if (question == nullptr || answer == nullptr) {
      const std::string where = fmt::format("{}: [{}].conversations", path, i);
      return invalid_argument(where + ": expected turns with a string 'value'", where);
    }
    pairs.push_back({std::string(*question), std::string(*answer)});
  }
  return pairs;
}

// The two tools count what the tokenizer adds into both lengths.
Result<int64_t> count_with_added(const TokenCodec& codec, const std::string& text) {
  Result<std::vector<TokenId>> ids = codec.encode(text);
  if (!ids) return ids.error();
  return static_cast<int64_t>(ids->size() + codec.num_added_tokens());
}

Result<std::vector<Kept>> keep_by_rule(
    std::vector<Pair> pairs, const Rule& rule, const TokenCodec& codec, size_t num_wanted
) {
  std::vector<Kept> kept;
  for (Pair& pair : pairs) {
    if (kept.size() >= num_wanted) break;
    Result<int64_t> num_prompt_tokens = count_with_added(codec, pair.question);
    if (!num_prompt_tokens) return num_prompt_tokens.error();
    int64_t num_output_tokens = 0;
    if (rule.output_len()) {
      num_output_tokens = *rule.output_len();
    } else {
      Result<int64_t> counted = count_with_added(codec, pair.answer);
      if (!counted) return counted.error();
      num_output_tokens = *counted;
    }
    if (!rule.keeps(*num_prompt_tokens, num_output_tokens)) continue;
    kept.push_back({std::move(pair.question), *num_prompt_tokens, num_output_tokens});
  }
  return kept;
}

Result<void> check_options(const DatasetOptions& options, const TokenCodec* codec) {
  if (codec == nullptr) {
    return invalid_argument("'sharegpt' counts tokens and needs a tokenizer: --tokenizer");
  }
  // SGLang refuses less than 4.
  const int64_t output_len_min = options.sharegpt_rule_vllm ? 1 : 4;
  for (const auto& [flag, value, low] :
       {std::tuple{"--sharegpt-output-len", options.sharegpt_output_len, output_len_min},
        std::tuple{"--output-len", options.output_len, output_len_min},
        std::tuple{"--sharegpt-context-len", options.sharegpt_context_len, int64_t{1}}}) {
    if (!value || (*value >= low && *value <= kPromptTokensMax)) continue;
    return invalid_argument(
        fmt::format("{} is {}, expected from {} to {}", flag, *value, low, kPromptTokensMax), flag
    );
  }
  return {};
}

}  // namespace

DatasetResult make_sharegpt_dataset(const DatasetOptions& options, CodecPtr codec) {
  if (Result<void> checked = check_options(options, codec.get()); !checked) return checked.error();
  Result<std::vector<Pair>> pairs = read_pairs(options.path);
  if (!pairs) return pairs.error();
  Rng rng(key_of(run_keys(options).lengths, kOrderSalt));
  for (size_t i = pairs->size(); i > 1; --i) std::swap((*pairs)[i - 1], (*pairs)[rng.below(i)]);

  const size_t num_wanted = options.num_sessions.value_or(pairs->size());
  Result<std::vector<Kept>> kept =
      keep_by_rule(*std::move(pairs), Rule(options), *codec, num_wanted);
  if (!kept) return kept.error();
  if (kept->empty()) {
    return invalid_argument(
        fmt::format("{}: no conversation is long and short enough to be kept", options.path),
        options.path
    );
  }
  const bool draws_again = options.sharegpt_rule_vllm && options.num_sessions;
  const size_t size = draws_again ? num_wanted : kept->size();
  return std::unique_ptr<Dataset>(
      std::make_unique<SharegptDataset>(options, std::move(codec), *std::move(kept), size)
  );
}

}  // namespace millrace::bench
