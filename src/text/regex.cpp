// PCRE2 behind one value type.
#include "text/regex.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "text/regex_syntax.h"

namespace millrace {
namespace {

constexpr size_t kPatternSizeMax = 64 * 1024;
// One match attempt. Giving back a run of one class, byte by byte, takes a step each, so this
// allows runs of some ten megabytes; "(a+)+b" on forty letters would take a million times as many.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr uint32_t kParenthesesNestMax = 100;

// The limits of one search, and what it works in.
class Search {
 public:
  explicit Search(const pcre2_code* code)
      : code_(code),
        context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create_from_pattern(code, nullptr)) {
    CHECK(context_ != nullptr && data_ != nullptr, "out of memory");
    pcre2_set_match_limit(context_, kMatchLimit);
    pcre2_set_depth_limit(context_, kDepthLimit);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
  }

  // The first match at or behind `pos`.
  std::optional<ByteRange> find(std::string_view text, size_t pos) {
    int rc = match(text, pos, PCRE2_NO_UTF_CHECK);
    // Compiled code has 32 KiB of stack; the interpreter takes from the heap, up to its limit.
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = match(text, pos, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    }
    if (rc < 0) return std::nullopt;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_);
    return ByteRange{range[0], range[1]};
  }

 private:
  int match(std::string_view text, size_t pos, uint32_t options) {
    const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
    return pcre2_match(code_, bytes, text.size(), pos, options, data_, context_);
  }

  const pcre2_code* code_;
  pcre2_match_context* context_;
  pcre2_match_data* data_;
};

}  // namespace

void Regex::CodeDeleter::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kPatternSizeMax) {
    return invalid_argument(fmt::format(
        "a regular expression of {} bytes; at most {} are read", pattern.size(), kPatternSizeMax
    ));
  }
  const Result<std::string> translated = to_pcre2_syntax(pattern);
  if (!translated) return translated.error();
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, kParenthesesNestMax);
  int error = 0;
  PCRE2_SIZE offset = 0;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(translated->data());
  // Oniguruma knows neither callouts nor a lock on \C; both are off here for safety.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* code = pcre2_compile(bytes, translated->size(), kOptions, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    // The position would be one of the translation.
    return invalid_argument(fmt::format(
        "not a usable regular expression: {}", reinterpret_cast<const char*>(text.data())
    ));
  }
  // Without the just-in-time compiler (no memory, other machine) matching is only slower.
  static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  return Regex(code);
}

std::vector<ByteRange> Regex::find_all(std::string_view text) const {
  std::vector<ByteRange> matches;
  Search search(code_.get());
  size_t pos = 0;
  std::optional<size_t> last_end;
  while (pos <= text.size()) {
    const std::optional<ByteRange> match = search.find(text, pos);
    if (!match) break;
    // `\K` in a lookaround can put a start before `pos` or behind its end; that is no match to us.
    const bool is_usable = match->begin >= pos && match->end >= match->begin;
    const bool is_empty_after_match = match->begin == match->end && last_end == match->end;
    if (is_usable && !is_empty_after_match) {
      matches.push_back(*match);
      pos = match->end;
      last_end = pos;
      continue;
    }
    ++pos;
    while (pos < text.size() && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80) ++pos;
  }
  return matches;
}

}  // namespace millrace
