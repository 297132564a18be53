#include "server/choice_text.h"

#include <algorithm>

#include "text/unicode.h"

namespace millrace {
namespace {

// What of a prompt decides how the text after it begins: a character may have begun in its last
// tokens, and where words begin with their space a text's first one has none.
constexpr size_t kContextTokens = 8;

}  // namespace

std::shared_ptr<const StopStrings> stop_strings_of(const GenerationFields& fields) {
  return fields.stop.empty() ? nullptr : std::make_shared<const StopStrings>(fields.stop);
}

ChoiceText::ChoiceText(
    const Tokenizer& tokenizer,
    const GenerationFields& fields,
    std::span<const TokenId> prompt,
    std::shared_ptr<const StopStrings> stops
)
    : detokenizer_(tokenizer, fields.skip_special_tokens),
      counts_characters_(fields.sampling.logprobs.has_value()),
      includes_stop_(fields.include_stop_str_in_output),
      num_tokens_before_stop_(fields.sampling.min_tokens) {
  if (stops != nullptr) matcher_.emplace(std::move(stops), includes_stop_);
  if (fields.echo) {
    for (const TokenId id : prompt) {
      if (counts_characters_) echo_.text_offsets.push_back(text_offset());
      echo_.text += detokenize(id);
    }
  } else if (fields.continues_prompt) {
    for (const TokenId id : prompt.last(std::min(prompt.size(), kContextTokens))) {
      detokenizer_.push(id);
    }
  }
}

std::string_view ChoiceText::detokenize(TokenId id) {
  const std::string_view text = detokenizer_.push(id);
  if (counts_characters_) num_characters_ += static_cast<int64_t>(num_code_points(text));
  return text;
}

std::string_view ChoiceText::push(TokenId id) {
  if (has_stopped()) return {};
  const std::string_view text = detokenize(id);
  ++num_tokens_;
  return release(text);
}

std::string_view ChoiceText::release(std::string_view text) {
  if (!matcher_) return text;
  const bool may_stop = num_tokens_ > num_tokens_before_stop_;
  released_ = may_stop ? matcher_->push(text) : matcher_->pass(text);
  return released_;
}

std::string_view ChoiceText::push(const TokenEvent& event) {
  if (event.is_stop_token && !includes_stop_) return {};
  return push(event.token.id);
}

std::string_view ChoiceText::finish() {
  if (has_stopped()) return {};
  const std::string_view rest = release(detokenizer_.finish());
  if (!matcher_ || has_stopped()) return rest;
  released_ += matcher_->finish();
  return released_;
}

std::optional<std::string> ChoiceText::stop_string() const {
  if (!has_stopped()) return std::nullopt;
  return std::string(matcher_->matched_string());
}

}  // namespace millrace
