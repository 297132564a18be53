#include "text/jinja/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

// A namespace can contain itself, so the depth of values is no bound here.
constexpr int kReprDepthMax = 250;

std::string escaped(char32_t c) {
  const auto number = static_cast<uint32_t>(c);
  if (c <= 0xff) return fmt::format("\\x{:02x}", number);
  return c <= 0xffff ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

void append_string_repr(const Text& text, TextBuilder& out) {
  const std::string_view view = text.view();
  const bool has_single = view.find('\'') != std::string_view::npos;
  const bool has_double = view.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const std::string_view quoted(&quote, 1);
  out.append(quoted);
  for (size_t i = 0; i < view.size() && !out.overflowed();) {
    const size_t end = code_point_end(view, i);
    const char32_t c = decode_utf8(view.substr(i, end - i));
    const bool is_input = text.is_input_at(i);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.append(fmt::format("\\{}", static_cast<char>(c)), is_input);
    } else if (c == '\n') {
      out.append("\\n", is_input);
    } else if (c == '\r') {
      out.append("\\r", is_input);
    } else if (c == '\t') {
      out.append("\\t", is_input);
    } else if (is_printable(c)) {
      out.append(text, i, end);
    } else {
      out.append(escaped(c), is_input);
    }
    i = end;
  }
  out.append(quoted);
}

class Representer {
 public:
  Representer(Run& run, TextBuilder& out) : run_(run), out_(out) {}

  void append(const Value& value) {
    if (!run_.step() || out_.overflowed()) return;
    if (++depth_ > kReprDepthMax) run_.fail_limit("a value that contains itself cannot be shown");
    append_kind(value);
    --depth_;
  }

 private:
  void append_kind(const Value& value) {
    if (const Text* text = value.text()) {
      if (run_.work(text->size() * 4)) append_string_repr(*text, out_);
    } else if (value.is_undefined()) {
      out_.append("Undefined");
    } else if (value.is_none()) {
      out_.append("None");
    } else if (const bool* truth = value.boolean()) {
      out_.append(*truth ? "True" : "False");
    } else if (const double* number = value.floating()) {
      out_.append(float_repr(*number));
    } else if (const std::optional<int64_t> integer = value.as_int()) {
      out_.append(std::to_string(*integer));
    } else if (const uint64_t* large = value.large_int()) {
      out_.append(std::to_string(*large));
    } else if (const Dict* dict = value.dict()) {
      append_entries(*dict);
    } else if (const Sequence* sequence = value.sequence()) {
      append_sequence(*sequence);
    } else if (const Range* range = value.range()) {
      append_range(*range);
    } else {
      append_object(value);
    }
  }

  void append_items(const Sequence& sequence, std::string_view open, std::string_view close) {
    out_.append(open);
    for (size_t i = 0; i < sequence.items.size() && !run_.failed(); ++i) {
      if (i > 0) out_.append(", ");
      append(sequence.items[i]);
    }
    out_.append(close);
  }

  void append_sequence(const Sequence& sequence) {
    switch (sequence.kind) {
      case SequenceKind::kList:
        return append_items(sequence, "[", "]");
      case SequenceKind::kTuple:
      case SequenceKind::kGroup:
        return append_items(sequence, "(", sequence.items.size() == 1 ? ",)" : ")");
      case SequenceKind::kDictItems:
        return append_items(sequence, "dict_items([", "])");
      case SequenceKind::kDictKeys:
        return append_items(sequence, "dict_keys([", "])");
      case SequenceKind::kDictValues:
        return append_items(sequence, "dict_values([", "])");
      case SequenceKind::kIterator:
        // Python shows an address here, which no template can want.
        run_.fail_unsupported("a generator cannot be shown; use the filter 'list'");
    }
  }

  void append_entries(const Dict& dict) {
    out_.append("{");
    bool is_first = true;
    for (const auto& [key, value] : dict.entries) {
      if (run_.failed()) return;
      if (!std::exchange(is_first, false)) out_.append(", ");
      append(key);
      out_.append(": ");
      append(value);
    }
    out_.append("}");
  }

  void append_range(const Range& range) {
    out_.append(fmt::format("range({}, {}", range.start, range.stop));
    if (range.step != 1) out_.append(fmt::format(", {}", range.step));
    out_.append(")");
  }

  void append_object(const Value& value) {
    Object& object = *value.object();
    if (Namespace* ns = object.as<Namespace>()) {
      out_.append("<Namespace ");
      append_entries(ns->attributes);
      out_.append(">");
    } else if (Macro* macro = object.as<Macro>()) {
      const std::string& name = macro->body->name;
      out_.append(name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name));
    } else if (Loop* loop = object.as<Loop>()) {
      out_.append(fmt::format("<LoopContext {}/{}>", loop->index0 + 1, run_.length(*loop)));
    } else {
      run_.fail_unsupported(fmt::format("a '{}' cannot be shown", type_name(value)));
    }
  }

  Run& run_;
  TextBuilder& out_;
  int depth_ = 0;
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[64];
  const auto scientific =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  const std::string_view shortest(digits, static_cast<size_t>(scientific.ptr - digits));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const size_t first = e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(shortest.data() + first, shortest.data() + shortest.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  char fixed[64];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed).ptr;
  std::string result(fixed, end);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

void append_repr(Run& run, const Value& value, TextBuilder& out) {
  Representer(run, out).append(value);
  if (out.overflowed()) run.fail_limit("a string of the chat template is too large");
}

void append_ascii(Run& run, const Value& value, TextBuilder& out) {
  TextBuilder builder = run.builder();
  append_repr(run, value, builder);
  const Text shown = builder.take();
  if (!run.work(shown.size() * 4)) return;
  const std::string_view view = shown.view();
  for (size_t i = 0; i < view.size() && !out.overflowed();) {
    const size_t end = code_point_end(view, i);
    const std::string_view bytes = view.substr(i, end - i);
    const bool is_ascii = bytes.size() == 1;
    out.append(is_ascii ? std::string(bytes) : escaped(decode_utf8(bytes)), shown.is_input_at(i));
    i = end;
  }
  if (out.overflowed()) run.fail_limit("a string of the chat template is too large");
}

void append_str(Run& run, const Value& value, TextBuilder& out) {
  if (const Text* text = value.text()) {
    out.append(*text);
  } else if (!value.is_undefined()) {
    append_repr(run, value, out);
  }
  if (out.overflowed()) run.fail_limit("a string of the chat template is too large");
}

Text to_text(Run& run, const Value& value) {
  if (const Text* text = value.text()) return *text;
  TextBuilder out = run.builder();
  append_str(run, value, out);
  return out.take();
}

std::string repr(Run& run, const Value& value) {
  TextBuilder out = run.builder();
  append_repr(run, value, out);
  return std::string(out.take().view());
}

}  // namespace millrace::jinja
