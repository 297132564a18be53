#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/rng.h"
#include "loadgen/server_client.h"
#include "loadgen/server_probe.h"

namespace millrace::bench {
namespace {

constexpr std::chrono::milliseconds kAnswerTimeout{60'000};
// No tokenizer has more; a larger id is nonsense that must not become a table.
constexpr int64_t kVocabSizeMax = int64_t{1} << 24;
constexpr size_t kNumWordsPerCall = 1024;
constexpr size_t kNumCalls = 4;

// How a kind of server words it.
struct Dialect {
  const char* prompt;       // of /tokenize
  const char* adds_tokens;  // of /tokenize
};
constexpr std::array<Dialect, 2> kDialects = {{
    {"prompt", "add_special_tokens"},  // vLLM, SGLang, millrace
    {"content", "add_special"},        // llama-server
}};

// Words of one to three syllables that no language has: what tokenizers have for English falls into
// many short tokens.
std::string make_words(Rng& rng, size_t num_words) {
  constexpr std::array<std::string_view, 28> kOnsets = {
      "b", "c", "d", "f", "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",  "r",  "s",
      "t", "v", "w", "z", "bl", "br", "ch", "cr", "pl", "pr", "sh", "st", "th", "tr",
  };
  constexpr std::array<std::string_view, 8> kVowels = {"a", "e", "i", "o", "u", "ea", "ou", "ai"};
  constexpr std::array<std::string_view, 14> kCodas = {
      "", "n", "r", "s", "t", "l", "m", "d", "ck", "nt", "st", "ng", "ll", "ss"};
  std::string text;
  for (size_t i = 0; i < num_words; ++i) {
    text += ' ';
    const uint64_t num_syllables = 1 + rng.below(3);
    for (uint64_t k = 0; k < num_syllables; ++k) {
      text += kOnsets[rng.below(kOnsets.size())];
      text += kVowels[rng.below(kVowels.size())];
      text += kCodas[rng.below(kCodas.size())];
    }
  }
  return text;
}

class ServerCodec final : public TokenCodec {
 public:
  ServerCodec(ServerClient client, std::string model)
      : client_(std::move(client)), model_(std::move(model)) {}

  // Finds out how the server words it, and some of its vocabulary.
  Result<void> learn();

  Result<std::vector<TokenId>> encode(std::string_view text) const override {
    const std::lock_guard lock(mutex_);
    return tokenize(*dialect_, text, false);
  }
  Result<std::string> decode(std::span<const TokenId> ids) const override;
  size_t vocab_size() const override { return is_known_.size(); }
  bool is_reserved(TokenId id) const override {
    return id < 0 || static_cast<size_t>(id) >= is_known_.size() ||
           !is_known_[static_cast<size_t>(id)];
  }
  size_t num_added_tokens() const override { return num_added_; }

 private:
  Result<std::vector<TokenId>> tokenize(
      const Dialect& dialect, std::string_view text, bool adds_tokens
  ) const;
  Result<void> choose_dialect();
  void note(std::span<const TokenId> ids);

  mutable std::mutex mutex_;  // guards client_
  mutable ServerClient client_;
  const std::string model_;
  // What follows is written by learn() alone.
  const Dialect* dialect_ = &kDialects.front();
  std::vector<bool> is_known_;  // by id
  size_t num_added_ = 0;
};

Result<std::vector<TokenId>> ServerCodec::tokenize(
    const Dialect& dialect, std::string_view text, bool adds_tokens
) const {
  json::object body = {{dialect.prompt, text}, {dialect.adds_tokens, adds_tokens}};
  if (!model_.empty()) body["model"] = model_;
  const Result<json::value> answer = client_.post_json("/tokenize", body);
  if (!answer) return answer.error();
  const auto is_nonsense = [] {
    return invalid_argument("expected {\"tokens\": [ids]} in the answer", "/tokenize");
  };
  const json::object* object = answer->if_object();
  const json::value* tokens = object == nullptr ? nullptr : object->if_contains("tokens");
  if (tokens == nullptr || !tokens->is_array()) return is_nonsense();
  std::vector<TokenId> ids;
  ids.reserve(tokens->get_array().size());
  for (const json::value& token : tokens->get_array()) {
    boost::system::error_code error;
    const auto id = token.to_number<TokenId>(error);
    if (error || id < 0 || id >= kVocabSizeMax) return is_nonsense();
    ids.push_back(id);
  }
  return ids;
}

Result<std::string> ServerCodec::decode(std::span<const TokenId> ids) const {
  json::object body = {{"tokens", json::array(ids.begin(), ids.end())}};
  if (!model_.empty()) body["model"] = model_;
  const std::lock_guard lock(mutex_);
  const Result<json::value> answer = client_.post_json("/detokenize", body);
  if (!answer) return answer.error();
  const json::object* object = answer->if_object();
  for (const char* name : {"prompt", "text", "content"}) {  // vLLM, SGLang, llama-server
    const json::value* text = object == nullptr ? nullptr : object->if_contains(name);
    if (text != nullptr && text->is_string()) return std::string(text->get_string());
  }
  return invalid_argument("expected {\"prompt\": text} in the answer", "/detokenize");
}

void ServerCodec::note(std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    const auto index = static_cast<size_t>(id);
    if (index >= is_known_.size()) is_known_.resize(index + 1);
    is_known_[index] = true;
  }
}

// llama-server gives no tokens, and no error, where the text has a name that it does not know.
Result<void> ServerCodec::choose_dialect() {
  std::optional<Error> first;
  for (const Dialect& dialect : kDialects) {
    const Result<std::vector<TokenId>> ids = tokenize(dialect, "one two three", false);
    if (ids && !ids->empty()) {
      dialect_ = &dialect;
      return {};
    }
    if (first) continue;
    first =
        ids ? invalid_argument("the server made no tokens of a text", "/tokenize") : ids.error();
  }
  return *first;
}

Result<void> ServerCodec::learn() {
  if (Result<void> chosen = choose_dialect(); !chosen) return chosen;
  Rng rng(0);
  for (size_t call = 0; call < kNumCalls; ++call) {
    const Result<std::vector<TokenId>> ids =
        tokenize(*dialect_, make_words(rng, kNumWordsPerCall), false);
    if (ids) note(*ids);
    // It may have a bound on its texts; what is known then must do.
    if (!ids && is_known_.empty()) return ids.error();
  }
  const Result<std::vector<TokenId>> bare = tokenize(*dialect_, "one", false);
  const Result<std::vector<TokenId>> whole = tokenize(*dialect_, "one", true);
  if (!bare) return bare.error();
  if (!whole) return whole.error();
  num_added_ = whole->size() - std::min(whole->size(), bare->size());
  const Result<std::string> text = decode(*bare);
  if (!text) return text.error();
  return {};
}

}  // namespace

Result<std::shared_ptr<const TokenCodec>> make_server_codec(const Target& target) {
  Result<ServerClient> client = ServerClient::make(target, kAnswerTimeout);
  if (!client) return client.error();
  auto codec = std::make_shared<ServerCodec>(std::move(*client), target.model);
  if (Result<void> learnt = codec->learn(); !learnt) {
    Error error = learnt.error();
    error.message = "the server's tokenizer cannot be used: " + error.message;
    return error;
  }
  return std::shared_ptr<const TokenCodec>(std::move(codec));
}

}  // namespace millrace::bench
