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

std::string ChoiceText::push(TokenId id) {
  if (stop_string()) return {};
  const std::string text = detokenizer_.push(id);
  ++num_tokens_;
  if (!matcher_ || num_tokens_ <= num_tokens_before_stop_) return text;
  return matcher_->push(text);
}

std::string ChoiceText::finish() {
  if (stop_string()) return {};
  const std::string rest = detokenizer_.finish();
  if (!matcher_) return rest;
  const std::string released = matcher_->push(rest);
  return stop_string() ? released : released + matcher_->finish();
}

std::optional<std::string> ChoiceText::stop_string() const {
  if (!matcher_ || !matcher_->matched()) return std::nullopt;
  return stops_[*matcher_->matched()];
}

}  // namespace millrace
