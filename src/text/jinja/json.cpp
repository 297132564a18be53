// Values as JSON, as Python's json.dumps writes it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

std::string escape(char32_t c) {
  if (c <= 0xffff) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  const auto offset = static_cast<uint32_t>(c) - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (offset >> 10), 0xdc00 + (offset & 0x3ff));
}

// What stands for the code point; empty: itself.
std::string escaped(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      return c < 0x20 || (ensure_ascii && c > 0x7e) ? escape(c) : std::string();
  }
}

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style, TextBuilder& out)
      : run_(run), style_(style), out_(out) {}

  void write(const Value& value) {
    if (!run_.step() || out_.overflowed()) return;
    const std::string atom = scalar(value);
    if (const Text* text = value.text()) {
      write_string(*text);
    } else if (!atom.empty()) {
      out_.append(atom);
    } else if (is_list(value) || is_tuple(value)) {
      write_list(value.sequence()->items);
    } else if (value.dict() != nullptr) {
      write_dict(*value.dict());
    } else {
      run_.fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* truth = value.boolean()) return *truth ? "true" : "false";
    if (const double* number = value.floating()) return json_float(*number);
    if (const uint64_t* large = value.large_int()) return std::to_string(*large);
    return value.as_int() ? std::to_string(*value.as_int()) : std::string();
  }

  void write_string(const Text& text) {
    if (!run_.work(text.size() * 2)) return;
    const std::string_view view = text.view();
    out_.append("\"");
    size_t plain = 0;  // the start of what can be copied as it is
    for (size_t i = 0; i < view.size() && !out_.overflowed();) {
      const size_t end = code_point_end(view, i);
      const auto byte = static_cast<unsigned char>(view[i]);
      const bool is_plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
      const std::string replacement =
          is_plain ? "" : escaped(decode_utf8(view.substr(i, end - i)), style_.ensure_ascii);
      if (!replacement.empty()) {
        out_.append(text, plain, i);
        out_.append(replacement, text.is_input_at(i));
        plain = end;
      }
      i = end;
    }
    if (!out_.overflowed()) out_.append(text, plain, text.size());
    out_.append("\"");
  }

  void new_line(int level) {
    if (!style_.indent) return;
    out_.append("\n");
    out_.append_repeated(*style_.indent, static_cast<size_t>(level));
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (size_t i = 0; i < items.size() && !run_.failed() && !out_.overflowed(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level_);
      write(items[i]);
    }
    new_line(--level_);
    out_.append("]");
  }

  void write_key(const Value& key) {
    if (const Text* text = key.text()) return write_string(*text);
    const std::string name = scalar(key);
    if (name.empty()) {
      run_.fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
    out_.append("\"" + name + "\"");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return less(run_, a->first, b->first);
      });
    }
    out_.append("{");
    ++level_;
    for (size_t i = 0; i < entries.size() && !run_.failed() && !out_.overflowed(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level_);
      write_key(entries[i]->first);
      out_.append(style_.key_separator);
      write(entries[i]->second);
    }
    new_line(--level_);
    out_.append("}");
  }

  Run& run_;
  const JsonStyle& style_;
  TextBuilder& out_;
  int level_ = 0;
};

}  // namespace

void append_json(Run& run, const Value& value, const JsonStyle& style, TextBuilder& out) {
  JsonWriter(run, style, out).write(value);
  if (out.overflowed()) run.fail_limit("a string of the chat template is too large");
}

}  // namespace millrace::jinja
