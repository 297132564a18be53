// Literal search, and dispatch to the engines.
#include "text/text_pattern.h"

namespace millrace {

Result<TextPattern> TextPattern::literal(std::string text) {
  if (text.empty()) return unsupported("an empty string as a pattern");
  return TextPattern(std::move(text));
}

Result<TextPattern> TextPattern::regex(std::string_view pattern) {
  if (const std::optional<KnownPattern> known = find_known_pattern(pattern)) {
    return TextPattern(*known);
  }
  Result<Regex> compiled = Regex::compile(pattern);
  if (!compiled) return compiled.error();
  return TextPattern(*std::move(compiled));
}

void TextPattern::find_all(std::string_view text, ByteRange range, std::vector<ByteRange>& matches)
    const {
  const std::string_view part = text.substr(range.begin, range.end - range.begin);
  if (const KnownPattern* known_pattern = known()) {
    split_by_known_pattern(*known_pattern, text, range, matches);
  } else if (const Regex* compiled = std::get_if<Regex>(&matcher_)) {
    for (const ByteRange match : compiled->find_all(part)) {
      matches.push_back({range.begin + match.begin, range.begin + match.end});
    }
  } else {
    const std::string& literal = *literal_text();
    size_t pos = part.find(literal);
    while (pos != std::string_view::npos) {
      matches.push_back({range.begin + pos, range.begin + pos + literal.size()});
      pos = part.find(literal, pos + literal.size());
    }
  }
}

std::string TextPattern::replace_all(std::string_view text, std::string_view content) const {
  std::vector<ByteRange> matches;
  find_all(text, {0, text.size()}, matches);
  std::string out;
  size_t kept = 0;
  for (const ByteRange match : matches) {
    out.append(text.substr(kept, match.begin - kept));
    out.append(content);
    kept = match.end;
  }
  out.append(text.substr(kept));
  return out;
}

}  // namespace millrace
