// The tokenizer's part of GGUF metadata.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "checkpoint/gguf_model.h"

namespace millrace {
namespace {

constexpr size_t kTokensMax = 1 << 24;

// Moves a list into `field`, if the file has it.
template <class T>
Result<void> read_into(Result<std::optional<T>> value, T& field) {
  if (!value) return value.error();
  if (*value) field = std::move(**value);
  return {};
}

template <class T>
Result<void> read_into(Result<std::optional<T>> value, std::optional<T>& field) {
  if (!value) return value.error();
  field = std::move(*value);
  return {};
}

Result<void> read_lists(const GgufFile& file, GgufVocabulary& vocabulary) {
  const Result<void> steps[] = {
      read_into(file.string("tokenizer.ggml.model"), vocabulary.model),
      read_into(file.string("tokenizer.ggml.pre"), vocabulary.pre),
      read_into(file.strings("tokenizer.ggml.tokens"), vocabulary.tokens),
      read_into(file.floats("tokenizer.ggml.scores"), vocabulary.scores),
      read_into(file.integers("tokenizer.ggml.token_type"), vocabulary.token_types),
      read_into(file.strings("tokenizer.ggml.merges"), vocabulary.merges),
      read_into(file.boolean("tokenizer.ggml.add_bos_token"), vocabulary.add_bos),
      read_into(file.boolean("tokenizer.ggml.add_eos_token"), vocabulary.add_eos),
      read_into(file.boolean("tokenizer.ggml.add_space_prefix"), vocabulary.add_space_prefix),
  };
  for (const Result<void>& step : steps) {
    if (!step) return step.error();
  }
  return {};
}

Result<void> check_counts(const GgufVocabulary& vocabulary) {
  const size_t num_tokens = vocabulary.tokens.size();
  if (num_tokens == 0 || num_tokens > kTokensMax || vocabulary.merges.size() > kTokensMax) {
    return invalid_argument(
        fmt::format(
            "GGUF: {} tokens and {} merges; at most {} each, and one token at least",
            num_tokens,
            vocabulary.merges.size(),
            kTokensMax
        ),
        "tokenizer.ggml.tokens"
    );
  }
  if (!vocabulary.scores.empty() && vocabulary.scores.size() != num_tokens) {
    return invalid_argument(
        fmt::format("GGUF: {} scores for {} tokens", vocabulary.scores.size(), num_tokens),
        "tokenizer.ggml.scores"
    );
  }
  if (!vocabulary.token_types.empty() && vocabulary.token_types.size() != num_tokens) {
    return invalid_argument(
        fmt::format("GGUF: {} types for {} tokens", vocabulary.token_types.size(), num_tokens),
        "tokenizer.ggml.token_type"
    );
  }
  return {};
}

Result<void> read_ids(const GgufFile& file, GgufVocabulary& vocabulary) {
  struct Field {
    std::string_view key;
    std::optional<TokenId>& id;
  };
  const Field fields[] = {
      {"tokenizer.ggml.bos_token_id", vocabulary.bos},
      {"tokenizer.ggml.eos_token_id", vocabulary.eos},
      {"tokenizer.ggml.unknown_token_id", vocabulary.unknown},
      {"tokenizer.ggml.padding_token_id", vocabulary.padding},
  };
  const auto num_tokens = static_cast<int64_t>(vocabulary.tokens.size());
  for (const Field& field : fields) {
    const Result<std::optional<int64_t>> id = file.integer(field.key);
    if (!id) return id.error();
    if (!*id) continue;
    if (**id < 0 || **id >= num_tokens) {
      return invalid_argument(
          fmt::format("GGUF: '{}' is {}; there are {} tokens", field.key, **id, num_tokens),
          std::string(field.key)
      );
    }
    field.id = static_cast<TokenId>(**id);
  }
  return {};
}

}  // namespace

Result<std::optional<GgufVocabulary>> gguf_vocabulary(const GgufFile& file) {
  if (file.find("tokenizer.ggml.tokens") == nullptr) return std::optional<GgufVocabulary>();
  GgufVocabulary vocabulary;
  const Result<void> lists = read_lists(file, vocabulary);
  if (!lists) return lists.error();
  const Result<void> counts = check_counts(vocabulary);
  if (!counts) return counts.error();
  const Result<void> ids = read_ids(file, vocabulary);
  if (!ids) return ids.error();
  return std::optional(std::move(vocabulary));
}

Result<std::optional<std::string>> gguf_chat_template(const GgufFile& file) {
  return file.string("tokenizer.chat_template");
}

}  // namespace millrace
