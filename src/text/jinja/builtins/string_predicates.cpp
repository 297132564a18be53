// The methods of str that ask what its code points are: str.isdigit() and the like.
#include <algorithm>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/builtins/text_transform.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

template <class Predicate>
bool all_of(const Text& text, Predicate predicate) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (!predicate(c.value)) return false;
    i = c.end;
  }
  return true;
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}
bool is_alnum(char32_t c) {
  return is_alpha(c) || is_numeric(c);
}
bool is_ascii(char32_t c) {
  return c < 0x80;
}

template <bool (*predicate)(char32_t), bool accepts_empty = false>
Value all_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "str predicate", {});
  const Text& text = *self.text();
  if (run.failed() || !run.work(text.size())) return {};
  return text.empty() ? accepts_empty : all_of(text, predicate);
}

// One cased letter at least, and none of the other case.
template <bool (*right_case)(char32_t)>
Value case_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "str predicate", {});
  const Text& text = *self.text();
  if (run.failed() || !run.work(text.size())) return {};
  const bool has_letter = !all_of(text, [](char32_t c) { return !is_cased(c); });
  return has_letter && all_of(text, [](char32_t c) { return !is_cased(c) || right_case(c); });
}

Value istitle_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "istitle", {});
  const Text& text = *self.text();
  if (run.failed() || !run.work(text.size())) return {};
  bool follows_letter = false;
  bool has_letter = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    const bool starts_word = is_upper(c.value) || is_title(c.value);
    if (is_cased(c.value) && starts_word == follows_letter) return false;
    has_letter = has_letter || is_cased(c.value);
    follows_letter = is_cased(c.value);
    i = c.end;
  }
  return has_letter;
}

Value isidentifier_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "isidentifier", {});
  const Text& text = *self.text();
  if (run.failed() || !run.work(text.size())) return {};
  if (text.empty() || !is_identifier_start(code_point_at(text, 0).value)) return false;
  return all_of(text, is_identifier_part);
}

}  // namespace

const std::vector<NamedNative>& string_predicates() {
  static const std::vector<NamedNative> kTable = {
      {"isalnum", all_method<is_alnum>},
      {"isalpha", all_method<is_alpha>},
      {"isascii", all_method<is_ascii, true>},
      {"isdecimal", all_method<is_decimal>},
      {"isdigit", all_method<is_digit>},
      {"isidentifier", isidentifier_method},
      {"islower", case_method<is_lower>},
      {"isnumeric", all_method<is_numeric>},
      {"isprintable", all_method<is_printable, true>},
      {"isspace", all_method<is_space>},
      {"istitle", istitle_method},
      {"isupper", case_method<is_upper>},
  };
  return kTable;
}

}  // namespace millrace::jinja
