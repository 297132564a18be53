#include "text/token_texts.h"

#include <algorithm>
#include <limits>
#include <variant>

namespace millrace {
namespace {

// Longer tokens are rare, and not worth a larger entry.
constexpr size_t kTextBytesMax = std::numeric_limits<uint8_t>::max();
// A published decoder replaces one character by another.
constexpr size_t kReplacementBytesMax = 8;

// Whether decoding a token costs about what the token is long.
bool is_cheap(const DecoderStep& step) {
  const auto* replace = std::get_if<DecodeReplace>(&step);
  if (replace == nullptr) return true;
  return replace->pattern.literal_text() != nullptr &&
         replace->content.size() <= kReplacementBytesMax;
}

}  // namespace

TokenTexts::TokenTexts(const TextDecoder& decoder, size_t id_end, const TokenOf& token_of) {
  if (!std::ranges::all_of(decoder.steps(), is_cheap)) return;
  entries_.resize(id_end);
  DecodeStream stream = DecodeStream::settled(decoder);
  for (size_t id = 0; id < id_end; ++id) {
    const std::optional<Token> token = token_of(static_cast<TokenId>(id));
    if (!token || token->decoded.size() > kTextBytesMax) continue;
    stream.push(token->decoded);
    const std::string text = stream.take();
    if (!stream.is_settled()) {
      stream = DecodeStream::settled(decoder);
      continue;
    }
    if (text.size() > kTextBytesMax) continue;
    entries_[id] = {
        .begin = static_cast<uint32_t>(bytes_.size()),
        .size = static_cast<uint8_t>(text.size()),
        .is_known = true,
        .is_skippable = token->is_skippable,
    };
    bytes_ += text;
  }
  bytes_.shrink_to_fit();
}

}  // namespace millrace
