#include "server/protocol/prompt_list.h"

#include <fmt/format.h>

#include <utility>

#include "base/error_reason.h"
#include "server/field_error.h"

namespace millrace {
namespace {

// Tokenizer::encode() takes less than 1 GiB; no request body is that large.
constexpr size_t kTextBytesMax = size_t{1} << 29;

std::string at(std::string_view path, size_t i) {
  return fmt::format("{}[{}]", path, i);
}

Error empty_list(std::string_view path) {
  return invalid_argument(
      fmt::format("{} must not be an empty list", path),
      std::string(path),
      error_reason::kArrayBelowMin
  );
}

Error wrong_id(std::string_view path, size_t i, const json::value& value, int64_t vocab_size) {
  const std::string where = at(path, i);
  if (!value.is_int64() && !value.is_uint64()) return wrong_type(where, "a token id", value);
  const bool is_negative = value.is_int64() && value.get_int64() < 0;
  return invalid_argument(
      fmt::format("{} is not in the vocabulary: expected a token id below {}", where, vocab_size),
      where,
      is_negative ? error_reason::kIntegerBelowMin : error_reason::kIntegerAboveMax
  );
}

// The text at `path`, or at `path[i]` if there is an `i`.
Result<std::string> read_text(
    std::string_view path, const json::value& value, std::optional<size_t> i = std::nullopt
) {
  const auto where = [&] { return i ? at(path, *i) : std::string(path); };
  if (!value.is_string()) return wrong_type(where(), "a string", value);
  const json::string& text = value.get_string();
  if (!text.empty() && text.size() <= kTextBytesMax) return std::string(text);
  return invalid_argument(
      fmt::format("{} must be a text of 1 to {} bytes", where(), kTextBytesMax),
      where(),
      text.empty() ? error_reason::kStringBelowMin : error_reason::kStringAboveMax
  );
}

// Reads each entry of a list of prompts with `read(entry, i)`.
template <class Read>
Result<PromptList> read_list(
    std::string_view path, const json::array& entries, int32_t num_prompts_max, Read read
) {
  if (entries.empty()) return empty_list(path);
  if (entries.size() > static_cast<size_t>(num_prompts_max)) {
    return too_many_entries(path, entries.size(), static_cast<size_t>(num_prompts_max));
  }
  PromptList list{.is_list = true};
  list.prompts.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    auto prompt = read(entries[i], i);
    if (!prompt) return prompt.error();
    list.prompts.emplace_back(*std::move(prompt));
  }
  return list;
}

}  // namespace

Result<std::vector<TokenId>> read_token_list(
    std::string_view path, const json::value& value, int64_t vocab_size
) {
  if (!value.is_array()) return wrong_type(path, "a list of token ids", value);
  const json::array& entries = value.get_array();
  std::vector<TokenId> ids;
  ids.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const int64_t* id = entries[i].if_int64();
    if (id == nullptr || *id < 0 || *id >= vocab_size) {
      return wrong_id(path, i, entries[i], vocab_size);
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Result<PromptList> read_text_prompts(
    std::string_view path, const json::value& value, int32_t num_prompts_max
) {
  if (const json::array* entries = value.if_array()) {
    return read_list(path, *entries, num_prompts_max, [&](const json::value& entry, size_t i) {
      return read_text(path, entry, i);
    });
  }
  if (!value.is_string()) return wrong_type(path, "a string or a list of strings", value);
  Result<std::string> text = read_text(path, value);
  if (!text) return text.error();
  PromptList list;
  list.prompts.emplace_back(*std::move(text));
  return list;
}

Result<PromptList> read_id_prompts(
    std::string_view path, const json::value& value, int32_t num_prompts_max, int64_t vocab_size
) {
  if (!value.is_array()) return wrong_type(path, "a list of token ids", value);
  const json::array& entries = value.get_array();
  if (entries.empty()) return empty_list(path);
  if (entries.front().is_array()) {
    return read_list(
        path,
        entries,
        num_prompts_max,
        [&](const json::value& entry, size_t i) -> Result<std::vector<TokenId>> {
          if (entry.is_array() && entry.get_array().empty()) return empty_list(at(path, i));
          return read_token_list(at(path, i), entry, vocab_size);
        }
    );
  }
  Result<std::vector<TokenId>> ids = read_token_list(path, value, vocab_size);
  if (!ids) return ids.error();
  PromptList list;
  list.prompts.emplace_back(*std::move(ids));
  return list;
}

Result<PromptList> read_prompts(
    std::string_view path, const json::value& value, int32_t num_prompts_max, int64_t vocab_size
) {
  const json::array* entries = value.if_array();
  if (!value.is_string() && entries == nullptr) {
    return wrong_type(path, "a string, a list of strings, or token ids", value);
  }
  const bool is_text = entries == nullptr || (!entries->empty() && entries->front().is_string());
  if (is_text) return read_text_prompts(path, value, num_prompts_max);
  return read_id_prompts(path, value, num_prompts_max, vocab_size);
}

}  // namespace millrace
