#include "server/choice_text.h"

namespace millrace {

ChoiceText::ChoiceText(
    const Tokenizer& tokenizer, const GenerationFields& fields, std::span<const TokenId> prompt
)
    : detokenizer_(tokenizer, fields.skip_special_tokens),
      stops_(fields.stop),
      num_tokens_before_stop_(fields.sampling.min_tokens) {
  if (!stops_.empty()) matcher_.emplace(stops_, fields.include_stop_str_in_output);
  if (!fields.echo) return;
  for (const TokenId id : prompt) echo_ += detokenizer_.push(id);
}

std::string_view ChoiceText::push(TokenId id) {
  if (has_stopped()) return {};
  const std::string_view text = detokenizer_.push(id);
  ++num_tokens_;
  if (!matcher_ || num_tokens_ <= num_tokens_before_stop_) return text;
  released_ = matcher_->push(text);
  return released_;
}

std::string_view ChoiceText::finish() {
  if (has_stopped()) return {};
  const std::string_view rest = detokenizer_.finish();
  if (!matcher_) return rest;
  released_ = matcher_->push(rest);
  if (!has_stopped()) released_ += matcher_->finish();
  return released_;
}

std::optional<std::string> ChoiceText::stop_string() const {
  if (!has_stopped()) return std::nullopt;
  return stops_[*matcher_->matched()];
}

}  // namespace millrace
