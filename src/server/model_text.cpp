#include "server/model_text.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

[[maybe_unused]] bool is_gguf(const std::string& path) {
  return path.ends_with(".gguf");
}

// One token a byte and, above those, tokens that say their own number: for models whose weights are
// made up, and whose words mean nothing.
Result<Tokenizer> placeholder_tokenizer(int64_t vocab_size) {
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  for (int64_t id = 0; id < vocab_size; ++id) {
    const bool is_byte = id < 256;
    vocabulary.tokens.push_back(
        is_byte ? fmt::format("<0x{:02X}>", id) : fmt::format("<token {}>", id)
    );
    vocabulary.scores.push_back(0.0F);
    vocabulary.token_types.push_back(is_byte ? 6 : 4);
  }
  return Tokenizer::from_gguf_vocabulary(vocabulary);
}

Result<Tokenizer> load_tokenizer(
    const std::string& path,
    const std::optional<GgufVocabulary>& vocabulary,
    std::optional<int64_t> dummy_vocab_size
) {
  if (vocabulary) return Tokenizer::from_gguf_vocabulary(*vocabulary);
  if (fs::is_regular_file(path)) return Tokenizer::from_file(path);
  const fs::path file = fs::path(path) / "tokenizer.json";
  if (fs::exists(file)) return Tokenizer::from_file(file.string());
  if (dummy_vocab_size) return placeholder_tokenizer(*dummy_vocab_size);
  return not_found(
      fmt::format("'{}' has no tokenizer.json; name another place with --tokenizer", path), path
  );
}

SpecialTokens special_tokens_of(const GgufVocabulary& vocabulary) {
  const auto text_of = [&](const std::optional<TokenId>& id) {
    const bool exists = id && *id >= 0 && static_cast<size_t>(*id) < vocabulary.tokens.size();
    return exists ? vocabulary.tokens[static_cast<size_t>(*id)] : std::string();
  };
  return {.bos = text_of(vocabulary.bos), .eos = text_of(vocabulary.eos)};
}

Result<std::optional<ChatTemplate>> load_template(
    const ModelTextOptions&, const Checkpoint*
) {
  return std::optional<ChatTemplate>();
}

}  // namespace

Result<ModelText> load_model_text(const ModelTextOptions&) {
  return invalid_argument("stub");
}

Result<ModelText> load_model_text(
    const ModelTextOptions& options,
    const Checkpoint& checkpoint,
    std::optional<int64_t> dummy_vocab_size
) {
  Result<Tokenizer> tokenizer = load_tokenizer(
      options.tokenizer.value_or(options.model),
      options.tokenizer ? std::nullopt : checkpoint.vocabulary,
      dummy_vocab_size
  );
  if (!tokenizer) return tokenizer.error();
  (void)special_tokens_of; (void)load_template; (void)is_gguf;
  return ModelText{.tokenizer = *std::move(tokenizer), .chat_template = std::nullopt};
}

}  // namespace millrace
