#include "server/model_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

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
    std::span<const ListedToken> listed,
    std::optional<int64_t> dummy_vocab_size
) {
  if (vocabulary) return Tokenizer::from_gguf_vocabulary(*vocabulary);
  const bool is_gguf = path.ends_with(".gguf");
  if (fs::is_regular_file(path) && !is_gguf) return Tokenizer::from_file(path);
  const fs::path file = fs::path(path) / "tokenizer.json";
  if (fs::exists(file)) return Tokenizer::from_file(file.string(), listed);
  if (dummy_vocab_size) return placeholder_tokenizer(*dummy_vocab_size);
  const char* const missing = is_gguf ? "tokenizer.ggml.tokens" : "tokenizer.json";
  return not_found(
      fmt::format("'{}' has no {}; name another place with --tokenizer", path, missing), path
  );
}

SpecialTokens special_tokens_of(const GgufVocabulary& vocabulary) {
  const auto text_of = [&](const std::optional<TokenId>& id) -> std::optional<std::string> {
    const bool exists = id && *id >= 0 && static_cast<size_t>(*id) < vocabulary.tokens.size();
    if (!exists) return std::nullopt;
    return vocabulary.tokens[static_cast<size_t>(*id)];
  };
  return {
      .bos = text_of(vocabulary.bos),
      .eos = text_of(vocabulary.eos),
      .unk = text_of(vocabulary.unknown),
      .pad = text_of(vocabulary.padding),
  };
}

// `tokens`: those that the template can name. `source`: of a GGUF file's metadata, if it has one.
Result<std::optional<ChatTemplate>> load_template(
    const ModelTextOptions& options,
    bool is_gguf,
    const std::optional<std::string>& source,
    const SpecialTokens& tokens
) {
  const auto parse = [&](const std::string& text) -> Result<std::optional<ChatTemplate>> {
    Result<ChatTemplate> parsed = ChatTemplate::parse(text, tokens);
    if (!parsed) return parsed.error();
    return std::optional(*std::move(parsed));
  };
  if (options.chat_template_file) {
    const Result<std::string> text = read_file(*options.chat_template_file);
    if (!text) return text.error();
    return parse(*text);
  }
  if (is_gguf && source) return parse(*source);
  const std::string folder = options.tokenizer.value_or(options.model);
  if (is_gguf || !fs::is_directory(folder)) return std::optional<ChatTemplate>();
  return load_chat_template(folder, tokens);
}

// `vocabulary` and `template_source`: of a GGUF file, which carries both in its metadata.
Result<ModelText> load_parts(
    const ModelTextOptions& options,
    const std::optional<GgufVocabulary>& vocabulary,
    const std::optional<std::string>& template_source,
    std::optional<int64_t> dummy_vocab_size
) {
  const std::string place = options.tokenizer.value_or(options.model);
  const Result<FolderTokens> tokens =
      vocabulary ? FolderTokens{.special = special_tokens_of(*vocabulary), .listed = {}}
                 : load_folder_tokens(place);
  if (!tokens) return tokens.error();
  Result<Tokenizer> tokenizer = load_tokenizer(place, vocabulary, tokens->listed, dummy_vocab_size);
  if (!tokenizer) return tokenizer.error();
  const SpecialTokens& special = tokens->special;
  Result<std::optional<ChatTemplate>> chat_template =
      load_template(options, vocabulary.has_value(), template_source, special);
  if (!chat_template) return chat_template.error();
  const std::optional<TokenId> eos = special.eos ? tokenizer->token_id(*special.eos) : std::nullopt;
  return ModelText{
      .tokenizer = *std::move(tokenizer),
      .chat_template = *std::move(chat_template),
      .eos_token_id = eos,
  };
}

// Whether the text side lies in files of its own, so that no checkpoint need be opened for it.
bool has_tokenizer_files(const std::string& place) {
  return fs::exists(fs::path(place) / "tokenizer.json") ||
         (fs::is_regular_file(place) && !place.ends_with(".gguf"));
}

}  // namespace

Result<ModelText> load_model_text(const ModelTextOptions& options) {
  const std::string place = options.tokenizer.value_or(options.model);
  if (has_tokenizer_files(place))
    return load_parts(options, std::nullopt, std::nullopt, std::nullopt);
  const Result<Checkpoint> checkpoint = open_checkpoint(place, {.with_weights = false});
  if (!checkpoint) return checkpoint.error();
  return load_parts(options, checkpoint->vocabulary, checkpoint->chat_template, std::nullopt);
}

Result<ModelText> load_model_text(
    const ModelTextOptions& options,
    const Checkpoint& checkpoint,
    std::optional<int64_t> dummy_vocab_size
) {
  if (options.tokenizer) return load_model_text(options);
  return load_parts(options, checkpoint.vocabulary, checkpoint.chat_template, dummy_vocab_size);
}

}  // namespace millrace
