// Up to the step that fuses, tokens pass whole; behind it, text streams.
#include "text/decoder.h"

#include <algorithm>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// One digit, as Rust's u8::from_str_radix reads "<0xHH>" (which takes a plus sign before the last).
std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const std::optional<int> high = token[3] == '+' ? 0 : hex_digit(token[3]);
  const std::optional<int> low = hex_digit(token[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

std::string byte_level_bytes(std::string_view token) {
  return bytes_of_characters(token).value_or(std::string(token));
}

std::string_view strip_token(const DecodeStrip& strip, std::string_view token) {
  for (size_t i = 0; i < strip.num_start && token.starts_with(strip.content); ++i) {
    token.remove_prefix(strip.content.size());
  }
  for (size_t i = 0; i < strip.num_stop && token.ends_with(strip.content); ++i) {
    token.remove_suffix(strip.content.size());
  }
  return token;
}

std::string replace_literal(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t kept = 0;
  for (size_t pos = text.find(from); pos != std::string_view::npos; pos = text.find(from, kept)) {
    out.append(text.substr(kept, pos - kept));
    out.append(to);
    kept = pos + from.size();
  }
  out.append(text.substr(kept));
  return out;
}

bool fuses(const DecoderStep& step) {
  return std::holds_alternative<DecodeFuse>(step) || std::holds_alternative<DecodeByteLevel>(step);
}

// The longest proper prefix of `pattern` that `text` ends with.
size_t partial_match_size(std::string_view text, std::string_view pattern) {
  size_t size = std::min(text.size(), pattern.size() - 1);
  while (size > 0 && text.substr(text.size() - size) != pattern.substr(0, size)) --size;
  return size;
}

}  // namespace

std::string TextDecoder::token_bytes(std::string_view token) const {
  std::string bytes(token);
  for (const DecoderStep& step : steps_) {
    if (std::holds_alternative<DecodeByteLevel>(step)) return byte_level_bytes(bytes);
    if (std::holds_alternative<DecodeFuse>(step)) return bytes;
    if (std::holds_alternative<DecodeByteFallback>(step)) {
      if (const std::optional<char> byte = fallback_byte(bytes)) return {*byte};
    } else if (const auto* strip = std::get_if<DecodeStrip>(&step)) {
      bytes = std::string(strip_token(*strip, bytes));
    } else if (const auto* replace = std::get_if<DecodeReplace>(&step)) {
      bytes = replace->pattern.replace_all(bytes, replace->content);
    } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&step)) {
      bytes = replace_literal(bytes, metaspace->replacement, " ");
    }
  }
  return bytes;
}

DecodeStream::DecodeStream(const TextDecoder& decoder)
    : decoder_(&decoder), states_(decoder.steps().size()) {
  const auto& steps = decoder.steps();
  fuser_ = static_cast<size_t>(std::find_if(steps.begin(), steps.end(), fuses) - steps.begin());
}

DecodeStream DecodeStream::settled(const TextDecoder& decoder) {
  DecodeStream stream(decoder);
  stream.is_first_token_ = false;
  for (StepState& state : stream.states_) state.is_first = false;
  return stream;
}

// Metaspace treats the first token in its own way, and Strip the start of the one text.
bool DecodeStream::cares_for_first(size_t step) const {
  const DecoderStep& kind = decoder_->steps()[step];
  const bool is_fused = step > fuser_;
  return is_fused ? std::holds_alternative<DecodeStrip>(kind)
                  : std::holds_alternative<DecodeMetaspace>(kind);
}

bool DecodeStream::is_settled() const {
  if (is_first_token_ || !output_.empty()) return false;
  for (size_t step = 0; step < states_.size(); ++step) {
    if (!states_[step].held.empty()) return false;
    if (states_[step].is_first && cares_for_first(step)) return false;
  }
  return true;
}

void DecodeStream::CharacterCount::go_on(std::string_view text) {
  while (is_utf8 && num_bytes < text.size()) {
    const Utf8Sequence sequence = next_utf8_sequence(text.substr(num_bytes));
    if (sequence.kind == Utf8Sequence::Kind::kIncomplete) return;
    is_utf8 = sequence.kind == Utf8Sequence::Kind::kComplete;
    num_bytes += sequence.num_bytes;
    ++num_characters;
  }
}

// A run of bytes that are no UTF-8 becomes a character each (flush_byte_run()).
size_t DecodeStream::num_characters_held() {
  size_t num_characters = 0;
  for (StepState& state : states_) {
    CharacterCount& count = state.held_count;
    count.go_on(state.held);
    num_characters += count.is_utf8 ? count.num_characters : state.held.size();
  }
  return num_characters;
}

void DecodeStream::push(std::string_view token) {
  if (decoder_->joins_with_space() && !is_first_token_) output_.push_back(' ');
  is_first_token_ = false;
  feed_token(0, token);
}

void DecodeStream::finish() {
  for (size_t step = 0; step < states_.size(); ++step) finish_step(step);
}

// `token` reaches `step` whole; REQUIRES: step <= fuser_.
void DecodeStream::feed_token(size_t step, std::string_view token) {
  if (step == states_.size()) {
    output_.append(token);
    return;
  }
  StepState& state = states_[step];
  const DecoderStep& kind = decoder_->steps()[step];
  if (std::holds_alternative<DecodeByteLevel>(kind)) {
    feed_bytes(step, byte_level_bytes(token), false);
  } else if (std::holds_alternative<DecodeFuse>(kind)) {
    feed_text(step + 1, token);
  } else if (std::holds_alternative<DecodeByteFallback>(kind)) {
    if (const std::optional<char> byte = fallback_byte(token)) {
      state.held.push_back(*byte);
      return;
    }
    flush_byte_run(step);
    feed_token(step + 1, token);
  } else if (const auto* strip = std::get_if<DecodeStrip>(&kind)) {
    feed_token(step + 1, strip_token(*strip, token));
  } else if (const auto* replace = std::get_if<DecodeReplace>(&kind)) {
    const std::string* literal = replace->pattern.literal_text();
    feed_token(
        step + 1,
        literal != nullptr ? replace_literal(token, *literal, replace->content)
                           : replace->pattern.replace_all(token, replace->content)
    );
  } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&kind)) {
    const bool drops = std::exchange(state.is_first, false) && metaspace->drops_first;
    feed_token(step + 1, replace_literal(token, metaspace->replacement, drops ? "" : " "));
  }
}

// A run of bytes is text where all of it is UTF-8, and else one U+FFFD for each byte: so its end
// has to be known before any of it is.
void DecodeStream::flush_byte_run(size_t step) {
  const std::string run = std::exchange(states_[step].held, {});
  states_[step].held_count = {};
  if (run.empty()) return;
  if (is_valid_utf8(run)) return feed_token(step + 1, run);
  for (size_t i = 0; i < run.size(); ++i) feed_token(step + 1, kReplacementCharacter);
}

void DecodeStream::feed_bytes(size_t step, std::string_view bytes, bool at_end) {
  std::string& held = states_[step].held;
  held.append(bytes);
  std::string text;
  const size_t num_left = append_utf8_lossy(held, at_end, text);
  held.erase(0, held.size() - num_left);
  if (!text.empty()) feed_text(step + 1, text);
}

// A part of the one token that reaches `step`, behind the step that fuses.
void DecodeStream::feed_text(size_t step, std::string_view text) {
  if (step == states_.size()) {
    output_.append(text);
    return;
  }
  const DecoderStep& kind = decoder_->steps()[step];
  const auto* replace = std::get_if<DecodeReplace>(&kind);
  if (std::holds_alternative<DecodeFuse>(kind)) {
    feed_text(step + 1, text);
  } else if (const auto* strip = std::get_if<DecodeStrip>(&kind)) {
    strip_text(step, *strip, text);
  } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&kind)) {
    // There is one token only, so it is the first.
    const std::string_view space = metaspace->drops_first ? "" : " ";
    // A replacement is one character and pieces are whole ones, so none is cut in two.
    feed_text(step + 1, replace_literal(text, metaspace->replacement, space));
  } else if (replace != nullptr && replace->pattern.literal_text() != nullptr) {
    replace_text(step, *replace, text);
  } else {
    states_[step].held.append(text);
  }
}

void DecodeStream::strip_text(size_t step, const DecodeStrip& strip, std::string_view text) {
  StepState& state = states_[step];
  while (state.is_first && !text.empty()) {
    if (state.num_stripped == strip.num_start || !text.starts_with(strip.content)) {
      state.is_first = false;
      break;
    }
    text.remove_prefix(strip.content.size());
    ++state.num_stripped;
  }
  if (text.empty()) return;
  // What may be stripped at the end waits; the run of it that waits is at most `num_stop` long.
  state.held.append(text);
  const std::string_view kept = strip_token({strip.content, 0, strip.num_stop}, state.held);
  const std::string released(kept);
  state.held.erase(0, released.size());
  state.held_count = {};
  if (!released.empty()) feed_text(step + 1, released);
}

void DecodeStream::replace_text(size_t step, const DecodeReplace& replace, std::string_view text) {
  const std::string& pattern = *replace.pattern.literal_text();
  std::string& held = states_[step].held;
  held.append(text);
  std::string out;
  size_t kept = 0;
  for (size_t pos = held.find(pattern); pos != std::string::npos; pos = held.find(pattern, kept)) {
    out.append(held, kept, pos - kept);
    out.append(replace.content);
    kept = pos + pattern.size();
  }
  const std::string_view rest = std::string_view(held).substr(kept);
  const size_t num_waiting = partial_match_size(rest, pattern);
  out.append(rest.substr(0, rest.size() - num_waiting));
  held.erase(0, held.size() - num_waiting);
  states_[step].held_count = {};
  if (!out.empty()) feed_text(step + 1, out);
}

// Passes on what `step` still holds. The steps before it are finished.
void DecodeStream::finish_step(size_t step) {
  const DecoderStep& kind = decoder_->steps()[step];
  const bool is_fused = step > fuser_;
  if (std::holds_alternative<DecodeByteLevel>(kind)) {
    const std::string token = is_fused ? std::exchange(states_[step].held, {}) : std::string();
    feed_bytes(step, byte_level_bytes(token), true);
    return;
  }
  if (std::holds_alternative<DecodeByteFallback>(kind) && !is_fused) return flush_byte_run(step);
  std::string held = std::exchange(states_[step].held, {});
  if (held.empty() || !is_fused) return;
  const auto* replace = std::get_if<DecodeReplace>(&kind);
  if (std::holds_alternative<DecodeByteFallback>(kind)) {
    if (const std::optional<char> byte = fallback_byte(held)) {
      held.assign(1, *byte);
      if (!is_valid_utf8(held)) held = kReplacementCharacter;
    }
  } else if (replace != nullptr) {
    if (replace->pattern.literal_text() == nullptr) {
      held = replace->pattern.replace_all(held, replace->content);
    }
  } else if (std::holds_alternative<DecodeStrip>(kind)) {
    return;  // what waits is what is stripped
  }
  feed_text(step + 1, held);
}

}  // namespace millrace
