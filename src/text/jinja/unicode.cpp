#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/jinja/unicode_special_casing.h"

namespace millrace::jinja {
namespace {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

// Numeric_Type=Digit without the decimals (Unicode 14, DerivedNumericType.txt).
constexpr CodePointRange kDigitsNotDecimal[] = {
    {0xb2, 0xb3},       {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247c},   {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},
    {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},
    {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a},
};

// Other_Lowercase and Other_Uppercase: cased without being letters of that case (PropList.txt).
constexpr CodePointRange kOtherLowercase[] = {
    {0xaa, 0xaa},       {0xba, 0xba},       {0x2b0, 0x2b8},     {0x2c0, 0x2c1},
    {0x2e0, 0x2e4},     {0x345, 0x345},     {0x37a, 0x37a},     {0x1d2c, 0x1d6a},
    {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},   {0x207f, 0x207f},
    {0x2090, 0x209c},   {0x2170, 0x217f},   {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},
    {0xa69c, 0xa69d},   {0xa770, 0xa770},   {0xa7f8, 0xa7f9},   {0xab5c, 0xab5f},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
};
constexpr CodePointRange kOtherUppercase[] = {
    {0x2160, 0x216f},
    {0x24b6, 0x24cf},
    {0x1f130, 0x1f149},
    {0x1f150, 0x1f169},
    {0x1f170, 0x1f189},
};

template <size_t n>
bool contains(const CodePointRange (&ranges)[n], char32_t c) {
  return std::any_of(std::begin(ranges), std::end(ranges), [c](const CodePointRange& range) {
    return range.first <= c && c <= range.last;
  });
}

utf8proc_int32_t signed_code_point(char32_t c) {
  return static_cast<utf8proc_int32_t>(c);
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(signed_code_point(c));
}

const SpecialCasing* special_casing(char32_t c) {
  const auto* found = std::lower_bound(
      std::begin(kSpecialCasing),
      std::end(kSpecialCasing),
      c,
      [](const SpecialCasing& row, char32_t code_point) { return row.code_point < code_point; }
  );
  return found != std::end(kSpecialCasing) && found->code_point == c ? found : nullptr;
}

std::u32string one(utf8proc_int32_t c) {
  return {static_cast<char32_t>(c)};
}

}  // namespace

char32_t decode_utf8(std::string_view bytes) {
  utf8proc_int32_t c = -1;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  const auto size = static_cast<utf8proc_ssize_t>(bytes.size());
  return utf8proc_iterate(data, size, &c) == size && c >= 0 ? static_cast<char32_t>(c) : 0xfffd;
}

size_t encode_utf8(char32_t c, char* out) {
  if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) c = 0xfffd;
  auto* bytes = reinterpret_cast<utf8proc_uint8_t*>(out);
  return static_cast<size_t>(utf8proc_encode_char(signed_code_point(c), bytes));
}

std::string to_utf8(char32_t c) {
  char bytes[4];
  return {bytes, encode_utf8(c, bytes)};
}

bool is_valid_utf8(std::string_view text) {
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t c = -1;
    const auto rest = static_cast<utf8proc_ssize_t>(text.size() - at);
    const utf8proc_ssize_t size = utf8proc_iterate(data + at, rest, &c);
    if (size <= 0) return false;
    at += static_cast<size_t>(size);
  }
  return true;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_alpha(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || contains(kDigitsNotDecimal, c);
}

bool is_numeric(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || contains(kOtherUppercase, c);
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || contains(kOtherLowercase, c);
}

bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t kind = category(c);
  const bool is_separator = kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_ZP;
  const bool is_other = kind == UTF8PROC_CATEGORY_CN || kind >= UTF8PROC_CATEGORY_CC;
  return !is_separator && !is_other;
}

bool is_word(char32_t c) {
  return c == '_' || is_alpha(c) || is_numeric(c);
}

bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return is_identifier_start(c) || is_decimal(c) || kind == UTF8PROC_CATEGORY_MN ||
         kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_PC;
}

std::u32string to_upper(char32_t c) {
  const SpecialCasing* special = special_casing(c);
  if (special != nullptr) return std::u32string(special->upper);
  return one(utf8proc_toupper(signed_code_point(c)));
}

std::u32string to_lower(char32_t c) {
  if (c == 0x130) return U"i\u0307";
  return one(utf8proc_tolower(signed_code_point(c)));
}

std::u32string to_title(char32_t c) {
  const SpecialCasing* special = special_casing(c);
  if (special != nullptr) return std::u32string(special->title);
  return one(utf8proc_totitle(signed_code_point(c)));
}

}  // namespace millrace::jinja
