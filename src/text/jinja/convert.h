// Values as text: Python's str() and repr(), JSON, and the two ways of formatting.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/run.h"
#include "text/jinja/value.h"

namespace millrace::jinja {

std::string float_repr(double value);

void append_str(Run& run, const Value& value, TextBuilder& out);
void append_repr(Run& run, const Value& value, TextBuilder& out);
// Python's ascii(): repr() with everything beyond ASCII escaped.
void append_ascii(Run& run, const Value& value, TextBuilder& out);
// str(value); free for a string.
Text to_text(Run& run, const Value& value);
// For messages: the marks of input are lost.
std::string repr(Run& run, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // one level; none: everything in one line
  Text item_separator{", "};
  Text key_separator{": "};
};

// json.dumps(value). Strings keep their marks; what JSON adds is the template's.
void append_json(Run& run, const Value& value, const JsonStyle& style, TextBuilder& out);

// `format % values`, where `values` is a tuple, a dict or one value.
Value format_percent(Run& run, const Text& format, const Value& values);
// format.format(*positional, **keywords).
Value format_braces(Run& run, const Text& format, const Arguments& arguments);

// How a number or string is laid out: the fields of Python's format specification.
struct FormatSpec {
  char32_t fill = ' ';
  char align = '\0';  // one of <>=^, or none
  char sign = '-';
  bool is_alternate = false;
  char grouping = '\0';
  std::optional<size_t> width;
  std::optional<int> precision;
  char type = '\0';
};

// Appends `body` padded to the width of `spec`; `sign_size` bytes stay in front of zero padding.
void append_padded(
    const FormatSpec& spec, const Text& body, size_t sign_size, char default_align, TextBuilder& out
);
// Fails for a type letter that does not fit.
Text format_number(Run& run, const FormatSpec& spec, const Value& value, size_t& sign_size);

}  // namespace millrace::jinja
