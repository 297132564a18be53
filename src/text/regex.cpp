// PCRE2 behind one value type.
#include "text/regex.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"

namespace millrace {
namespace {

constexpr size_t kPatternSizeMax = 64 * 1024;
// One match attempt. Published pre-tokenizers need a few hundred steps for a word; a run of a
// megabyte of one class needs about as many steps as it has bytes.
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kDepthLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr uint32_t kParenthesesNestMax = 100;

struct MatchContext {
  MatchContext()
      : context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr)) {
    CHECK(context != nullptr && stack != nullptr, "out of memory");
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kDepthLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  MatchContext(const MatchContext&) = delete;
  MatchContext& operator=(const MatchContext&) = delete;
  ~MatchContext() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
  }
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Result<void> refuse_differences(std::string_view pattern) {
  // The same text, another meaning: hexadecimal digits, intersection of classes, "dot matches all".
  constexpr std::array<std::string_view, 4> kDifferent = {"\\h", "\\H", "&&", "(?m"};
  for (const std::string_view text : kDifferent) {
    if (pattern.find(text) != std::string_view::npos) {
      return unsupported(fmt::format("the regular expression uses `{}`, which is not offered", text)
      );
    }
  }
  return {};
}

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
  Result<void> same = refuse_differences(pattern);
  if (!same) return same.error();
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, kParenthesesNestMax);
  int error = 0;
  PCRE2_SIZE offset = 0;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(pattern.data());
  // Oniguruma knows neither callouts nor a lock on \C; both are off here for safety.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* code = pcre2_compile(bytes, pattern.size(), kOptions, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return invalid_argument(fmt::format(
        "not a usable regular expression, at byte {}: {}",
        offset,
        reinterpret_cast<const char*>(text.data())
    ));
  }
  // Without the just-in-time compiler (no memory, other machine) matching is only slower.
  static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  return Regex(code);
}

std::vector<ByteRange> Regex::find_all(std::string_view text) const {
  std::vector<ByteRange> matches;
  MatchContext limits;
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(code_.get(), nullptr);
  CHECK(data != nullptr, "out of memory");
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match_from = [&](size_t pos) {
    const int rc =
        pcre2_match(code_.get(), bytes, text.size(), pos, PCRE2_NO_UTF_CHECK, data, limits.context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(
        code_.get(),
        bytes,
        text.size(),
        pos,
        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
        data,
        limits.context
    );
  };
  size_t pos = 0;
  std::optional<size_t> last_end;
  while (pos <= text.size()) {
    if (match_from(pos) < 0) break;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    // `\K` in a lookaround can put a start before `pos` or behind its end; that is no match to us.
    const bool is_usable = range[0] >= pos && range[1] >= range[0];
    const bool is_empty_after_match = range[0] == range[1] && last_end == range[1];
    if (is_usable && !is_empty_after_match) {
      matches.push_back({range[0], range[1]});
      pos = range[1];
      last_end = pos;
      continue;
    }
    ++pos;
    while (pos < text.size() && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80) ++pos;
  }
  pcre2_match_data_free(data);
  return matches;
}

}  // namespace millrace
