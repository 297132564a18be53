// One pass over the pattern that knows escapes, classes and groups, and copies what means the same.
// tests/parity/regex_parity.py compares what the engines find, character by character.
#include "text/regex_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace millrace {
namespace {

// What Oniguruma's `\w` matches, as the inside of a class: in one, and outside of any. There it
// takes ASCII and Latin-1 from a table of their own, in which these numbers are words.
constexpr std::string_view kWordOfClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWord =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kSpace = R"(\p{White_Space})";
constexpr std::string_view kNoSpace = R"(\P{White_Space})";

struct PosixSet {
  std::string_view name;
  std::string_view inside;      // of a class
  std::string_view complement;  // empty: none that fits inside of a class
};

constexpr std::array<PosixSet, 12> kPosixSets = {{
    {"alnum", R"(\p{Alphabetic}\p{Nd})", ""},
    {"alpha", R"(\p{Alphabetic})", R"(\P{Alphabetic})"},
    {"ascii", "[:ascii:]", "[:^ascii:]"},
    {"blank", R"(\t\p{Zs})", ""},
    {"cntrl", "[:cntrl:]", "[:^cntrl:]"},
    {"digit", R"(\p{Nd})", R"(\P{Nd})"},
    {"lower", R"(\p{Lowercase})", R"(\P{Lowercase})"},
    {"punct", R"(\p{P}\p{S})", ""},
    {"space", kSpace, kNoSpace},
    {"upper", R"(\p{Uppercase})", R"(\P{Uppercase})"},
    {"word", kWordOfClass, ""},
    {"xdigit", "[:xdigit:]", "[:^xdigit:]"},
}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Whether Unicode has a script of this name, which PCRE2 is asked.
bool is_script(std::string_view name) {
  const bool is_name = std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || c == ' ' || c == '-' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
  if (!is_name) return false;
  const std::string probe = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  PCRE2_SIZE offset = 0;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(probe.data());
  pcre2_code* code = pcre2_compile(bytes, probe.size(), PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

class SyntaxTranslator {
 public:
  explicit SyntaxTranslator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> translate() {
    while (at_ < pattern_.size() && !refused_) {
      switch (pattern_[at_]) {
        case '\\':
          escape();
          break;
        case '[':
          char_class();
          break;
        case '(':
          group();
          break;
        case '{':
          braces();
          break;
        default:
          out_ += pattern_[at_++];
      }
    }
    if (!refused_) return std::move(out_);
    return unsupported(
        fmt::format("the regular expression uses {}, which is not offered", *refused_)
    );
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void refuse(std::string construct) {
    if (!refused_) refused_ = std::move(construct);
  }
  void copy(size_t num_bytes, std::string& out) {
    out += pattern_.substr(at_, num_bytes);
    at_ = std::min(at_ + num_bytes, pattern_.size());
  }
  void replace(size_t num_bytes, std::string_view text, std::string& out) {
    out += text;
    at_ += num_bytes;
  }

  // Behind the next `}`.
  size_t end_of_braces() const {
    const size_t close = pattern_.find('}', at_);
    return close == std::string_view::npos ? pattern_.size() : close + 1;
  }

  void escape() {
    switch (peek(1)) {
      case 'w':
        return replace(2, fmt::format("[{}]", kWord), out_);
      case 'W':
        return replace(2, fmt::format("[^{}]", kWord), out_);
      case 'b':
        return replace(2, fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWord), out_);
      case 'B':
        return replace(2, fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWord), out_);
      default:
        return common_escape(out_);
    }
  }

  // What is the same in a class and outside of one.
  void common_escape(std::string& out) {
    const char letter = peek(1);
    switch (letter) {
      case 's':
        return replace(2, kSpace, out);
      case 'S':
        return replace(2, kNoSpace, out);
      case 'v':  // one character to Oniguruma, any vertical space to PCRE2
        return replace(2, R"(\x{b})", out);
      case 'h':  // hexadecimal digits, or horizontal space
      case 'H':
      case 'V':  // letters to Oniguruma
      case 'Q':
      case 'E':
      case 'g':  // another syntax of references
        return refuse(fmt::format("`\\{}`", letter));
      case 'p':
      case 'P':
        return property(out);
      case 'x':
      case 'o':  // whose braces are no quantifier
        if (peek(2) == '{') return copy(end_of_braces() - at_, out);
        return copy(2, out);
      case 'c':  // a control character, which may be one of syntax
        return copy(3, out);
      default:
        return copy(2, out);
    }
  }

  // PCRE2 reads the name of a script as its Script_Extensions.
  void property(std::string& out) {
    if (peek(2) != '{') return refuse(fmt::format("`\\{}` without braces", peek(1)));
    const std::string_view whole = pattern_.substr(at_, end_of_braces() - at_);
    if (!whole.ends_with('}')) return copy(whole.size(), out);
    std::string_view name = whole.substr(3, whole.size() - 4);
    const bool is_complement = name.starts_with('^');
    if (is_complement) name.remove_prefix(1);
    if (!is_script(name)) return copy(whole.size(), out);
    const std::string_view sign = is_complement ? "^" : "";
    replace(whole.size(), fmt::format("{}{{{}sc:{}}}", whole.substr(0, 2), sign, name), out);
  }

  void char_class() {
    ++at_;
    const bool is_complement = peek() == '^';
    if (is_complement) ++at_;
    std::string inside;
    bool has_no_word = false;  // `\W`, a complement that does not fit inside of a class
    for (bool is_first = true; !refused_; is_first = false) {
      if (at_ >= pattern_.size()) return replace(0, "[" + inside, out_);
      if (peek() == ']' && !is_first) break;
      has_no_word = class_member(inside) || has_no_word;
    }
    ++at_;
    if (!has_no_word) {
      out_ += fmt::format("[{}{}]", is_complement ? "^" : "", inside);
    } else if (inside.empty()) {
      out_ += fmt::format("[{}{}]", is_complement ? "" : "^", kWordOfClass);
    } else if (is_complement) {
      out_ += fmt::format("(?:(?=[{}])[^{}])", kWordOfClass, inside);
    } else {
      out_ += fmt::format("(?:[^{}]|[{}])", kWordOfClass, inside);
    }
  }

  // Appends one member of a class; true for `\W`, which its caller adds.
  bool class_member(std::string& inside) {
    const char c = peek();
    if (c == '[') {
      posix_set(inside);
    } else if (c == '&' && peek(1) == '&') {
      refuse("`&&` (an intersection of classes)");
    } else if (c == '^' || c == ']') {  // which might come to stand first
      replace(1, std::string("\\") + c, inside);
    } else if (c != '\\') {
      copy(1, inside);
    } else if (peek(1) == 'w') {
      replace(2, kWordOfClass, inside);
    } else if (peek(1) == 'W') {
      at_ += 2;
      return true;
    } else {
      common_escape(inside);
    }
    return false;
  }

  void posix_set(std::string& inside) {
    const size_t close = peek(1) == ':' ? pattern_.find(":]", at_) : std::string_view::npos;
    if (close == std::string_view::npos) return refuse("a class inside of a class");
    const std::string_view whole = pattern_.substr(at_, close + 2 - at_);
    std::string_view name = whole.substr(2, whole.size() - 4);
    const bool is_complement = name.starts_with('^');
    if (is_complement) name.remove_prefix(1);
    const auto* set = std::ranges::find(kPosixSets, name, &PosixSet::name);
    const bool is_known = set != kPosixSets.end() && !(is_complement && set->complement.empty());
    if (!is_known) return refuse(fmt::format("`{}`", whole.substr(0, 40)));
    replace(whole.size(), is_complement ? set->complement : set->inside, inside);
  }

  void group() {
    if (peek(1) == '*') return refuse("`(*`");
    if (peek(1) != '?') return copy(1, out_);
    const char kind = peek(2);
    if (kind == '#') return comment();
    if (std::string_view(":=!><'").find(kind) != std::string_view::npos) return copy(3, out_);
    const size_t begin = at_;
    for (at_ += 2; peek() != ':' && peek() != ')'; ++at_) {
      // A comment of an extended pattern might hold anything.
      const bool is_extended = peek() == 'x' && pattern_.find('#') == std::string_view::npos;
      if (peek() == 'i' || peek() == '-' || is_extended) continue;
      return refuse(fmt::format("`{}`", pattern_.substr(begin, at_ + 1 - begin)));
    }
    // To Oniguruma, `a(?i)b|c` is `a(?i:b|c)`.
    if (peek() == ')' && begin > 0) return refuse("an option in the middle");
    out_ += pattern_.substr(begin, ++at_ - begin);
  }

  // Left out, since the engines differ in where one ends.
  void comment() {
    while (at_ < pattern_.size() && peek() != ')') at_ += peek() == '\\' ? 2 : 1;
    ++at_;
  }

  void braces() {
    size_t end = at_ + 1;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    const bool has_low = end > at_ + 1;
    const bool has_comma = end < pattern_.size() && pattern_[end] == ',';
    if (has_comma) ++end;
    const size_t high = end;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    const bool is_quantifier =
        end < pattern_.size() && pattern_[end] == '}' && (has_low || end > high);
    if (!is_quantifier) return copy(1, out_);
    const std::string_view quantifier = pattern_.substr(at_, end + 1 - at_);
    const char behind = end + 1 < pattern_.size() ? pattern_[end + 1] : '\0';
    // To Oniguruma `+` repeats, and is not possessive; `{n}?` may be absent, and is not lazy.
    if (behind == '+' || (behind == '?' && !has_comma)) {
      return refuse(fmt::format("`{}{}`", quantifier, behind));
    }
    replace(
        quantifier.size(),
        has_low ? std::string(quantifier) : fmt::format("{{0{}", quantifier.substr(1)),
        out_
    );
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  std::optional<std::string> refused_;
};

}  // namespace

Result<std::string> to_pcre2_syntax(std::string_view pattern) {
  return SyntaxTranslator(pattern).translate();
}

}  // namespace millrace
