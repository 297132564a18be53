// Leftmost-longest search over a trie, then the conditions of each token.
#include "text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "text/unicode.h"

namespace millrace {
namespace {

// Bounds the work of one search position; the longest published token has some fifty bytes.
constexpr size_t kContentSizeMax = 4096;

uint8_t classes_at(std::string_view text, size_t pos) {
  return CodePointClasses::table().of(decode_code_point(text, pos).value);
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  const size_t last = text.size() - previous_code_point_size(text, text.size());
  return (classes_at(text, last) & CodePointClass::kWord) != 0;
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && (classes_at(text, 0) & CodePointClass::kWord) != 0;
}

// Where the white space before `end` begins, no earlier than `floor`.
size_t skip_space_left(std::string_view text, size_t floor, size_t end) {
  while (end > floor) {
    const size_t size = previous_code_point_size(text, end);
    if ((classes_at(text, end - size) & CodePointClass::kSpace) == 0) break;
    end -= size;
  }
  return end;
}

size_t skip_space_right(std::string_view text, size_t pos) {
  while (pos < text.size() && (classes_at(text, pos) & CodePointClass::kSpace) != 0) {
    pos += decode_code_point(text, pos).num_bytes;
  }
  return pos;
}

// Answers for ascending positions whether a stretch overlaps a plain range.
class PlainCursor {
 public:
  explicit PlainCursor(std::span<const ByteRange> ranges) : ranges_(ranges) {}

  bool overlaps(ByteRange stretch) {
    while (next_ < ranges_.size() && ranges_[next_].end <= stretch.begin) ++next_;
    for (size_t i = next_; i < ranges_.size() && ranges_[i].begin < stretch.end; ++i) {
      if (ranges_[i].begin < ranges_[i].end && ranges_[i].end > stretch.begin) return true;
    }
    return false;
  }

 private:
  std::span<const ByteRange> ranges_;
  size_t next_ = 0;
};

Error token_error(const AddedToken& token, std::string_view what) {
  std::string shown;
  append_utf8_lossy(std::string_view(token.content).substr(0, 60), true, shown);
  return invalid_argument(fmt::format("added token {} \"{}\" {}", token.id, shown, what));
}

}  // namespace

uint32_t AddedTokens::Matcher::child(uint32_t node, char byte) const {
  uint32_t next = nodes_[node].first_child;
  while (next != 0 && nodes_[next].byte != byte) next = nodes_[next].next_sibling;
  return next;
}

bool AddedTokens::Matcher::add(std::string_view pattern, size_t token) {
  if (nodes_.empty()) nodes_.emplace_back();
  first_bytes_[static_cast<uint8_t>(pattern[0])] = true;
  uint32_t node = 0;
  for (const char byte : pattern) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      Node added;
      added.byte = byte;
      added.next_sibling = nodes_[node].first_child;
      nodes_.push_back(added);
      nodes_[node].first_child = next;
    }
    node = next;
  }
  if (nodes_[node].token) return false;
  nodes_[node].token = static_cast<uint32_t>(token);
  return true;
}

template <class Allows>
std::optional<AddedTokens::Matcher::Match> AddedTokens::Matcher::longest(
    std::string_view text, size_t pos, Allows allows
) const {
  std::optional<Match> best;
  uint32_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == 0) break;
    if (!nodes_[node].token) continue;
    const Match match{*nodes_[node].token, i + 1 - pos};
    if (allows(match)) best = match;
  }
  return best;
}

Result<AddedTokens> AddedTokens::create(
    std::vector<AddedToken> tokens, const Normalizer& normalizer
) {
  AddedTokens added;
  std::unordered_set<std::string_view> contents;
  std::unordered_set<TokenId> ids;
  std::erase_if(tokens, [](const AddedToken& token) { return token.content.empty(); });
  added.tokens_ = std::move(tokens);
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken& token = added.tokens_[i];
    if (token.content.size() > kContentSizeMax) {
      return token_error(token, fmt::format("is longer than {} bytes", kContentSizeMax));
    }
    if (!contents.insert(token.content).second) return token_error(token, "stands twice");
    if (!ids.insert(token.id).second) {
      return token_error(token, "has the id of another added token");
    }
    NormalizedText pattern{.text = token.content, .plain_marks = {}};
    if (token.normalized) normalizer.apply(pattern);
    added.decoded_texts_.push_back(pattern.text);
    if (pattern.text.empty()) return token_error(token, "is empty when normalized");
    Matcher& matcher = token.normalized ? added.normalized_ : added.verbatim_;
    if (!matcher.add(pattern.text, i)) {
      return token_error(token, "has the normalized form of another added token");
    }
    if (token.normalized && token.special) added.has_normalized_special_ = true;
  }
  return added;
}

std::vector<AddedTokenSegment> AddedTokens::split(
    std::string_view text, std::span<const ByteRange> plain, bool normalized
) const {
  const Matcher& matcher = normalized ? normalized_ : verbatim_;
  std::vector<AddedTokenSegment> segments;
  size_t covered = 0;
  PlainCursor plain_cursor(plain);
  for (size_t pos = 0; !matcher.is_empty() && pos < text.size();) {
    if (!matcher.can_begin(text[pos])) {
      ++pos;
      continue;
    }
    const auto match = matcher.longest(text, pos, [&](Matcher::Match candidate) {
      return !tokens_[candidate.token].special ||
             !plain_cursor.overlaps({pos, pos + candidate.size});
    });
    if (!match) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[match->token];
    size_t begin = pos;
    size_t end = pos + match->size;
    pos = end;
    if (token.single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) begin = covered < begin ? skip_space_left(text, covered, begin) : covered;
    if (token.rstrip) end = skip_space_right(text, end);
    if (begin >= end) continue;  // the token before it took all of this one as white space
    if (covered < begin) segments.push_back({{covered, begin}, std::nullopt});
    segments.push_back({{begin, end}, token.id});
    covered = end;
  }
  if (covered < text.size()) segments.push_back({{covered, text.size()}, std::nullopt});
  return segments;
}

}  // namespace millrace
