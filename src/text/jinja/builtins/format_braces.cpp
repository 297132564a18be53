// str.format: replacement fields, whose attributes and items obey the sandbox.
#include <fmt/format.h>

#include <charconv>

#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Run& run, const Arguments& arguments) : run_(run), arguments_(arguments) {}

  // `depth` 1: the fields of a format; 2: those inside of another field's specification.
  Text format(const Text& format, int depth) {
    TextBuilder out = run_.builder();
    const std::string_view view = format.view();
    for (size_t i = 0; i < view.size() && !run_.failed() && !out.overflowed();) {
      const size_t brace = std::min(view.find_first_of("{}", i), view.size());
      out.append(format, i, brace);
      if (brace == view.size()) break;
      if (brace + 1 < view.size() && view[brace + 1] == view[brace]) {
        out.append(format, brace, brace + 1);
        i = brace + 2;
        continue;
      }
      const size_t close = view[brace] == '{' ? field_end(view, brace + 1) : 0;
      if (close == 0) {
        run_.fail(
            view[brace] == '{' ? "expected '}' before end of string"
                               : "Single '}' encountered in format string"
        );
        break;
      }
      field(format.slice(brace + 1, close), depth, out);
      i = close + 1;
    }
    if (out.overflowed()) run_.fail_limit("a string of the chat template is too large");
    return out.take();
  }

 private:
  // The brace that closes the field which starts at `begin`, or 0.
  static size_t field_end(std::string_view view, size_t begin) {
    size_t num_open = 1;
    for (size_t i = begin; i < view.size(); ++i) {
      if (view[i] == '{') ++num_open;
      if (view[i] == '}' && --num_open == 0) return i;
    }
    return 0;
  }

  void field(const Text& text, int depth, TextBuilder& out) {
    if (!run_.step() || !run_.work(text.size())) return;
    if (depth > 2) {
      run_.fail("Max string recursion exceeded");
      return;
    }
    const std::string_view view = text.view();
    const size_t name_end = std::min(view.find_first_of("!:"), view.size());
    Value value = lookup(view.substr(0, name_end));
    size_t at = name_end;
    char conversion = '\0';
    if (at < view.size() && view[at] == '!') {
      conversion = at + 1 < view.size() ? view[at + 1] : '\0';
      at += 2;
      if (at < view.size() && view[at] != ':') run_.fail("expected ':' after conversion specifier");
    }
    const Text spec = at < view.size() ? text.slice(at + 1, view.size()) : Text();
    if (run_.failed()) return;
    if (conversion == 's') value = run_.str(to_text(run_, value));
    if (conversion == 'r' || conversion == 'a') {
      TextBuilder shown = run_.builder();
      conversion == 'r' ? append_repr(run_, value, shown) : append_ascii(run_, value, shown);
      value = run_.str(shown);
    }
    if (conversion != '\0' && conversion != 's' && conversion != 'r' && conversion != 'a') {
      run_.fail(fmt::format("Unknown conversion specifier {}", conversion));
    }
    const Text expanded = spec.empty() ? spec : format(spec, depth + 1);
    if (!run_.failed()) append_formatted(value, expanded.view(), out);
  }

  Value lookup(std::string_view path) {
    const size_t first_end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, first_end));
    for (size_t i = first_end; i < path.size() && !run_.failed();) {
      if (path[i] == '.') {
        const size_t end = std::min(path.find_first_of(".[", i + 1), path.size());
        if (end == i + 1) return run_.fail("Empty attribute in format string");
        value = get_attribute(run_, value, path.substr(i + 1, end - i - 1));
        i = end;
      } else if (path[i] == '[') {
        const size_t end = path.find(']', i);
        if (end == std::string_view::npos) return run_.fail("Missing ']' in format string");
        if (end == i + 1) return run_.fail("Empty attribute in format string");
        value = get_item(run_, value, key(path.substr(i + 1, end - i - 1)));
        i = end + 1;
      } else {
        return run_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static std::optional<int64_t> index(std::string_view name) {
    int64_t value = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), value);
    const bool is_whole = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
    return is_whole && value >= 0 ? std::optional(value) : std::nullopt;
  }

  Value key(std::string_view name) {
    if (const std::optional<int64_t> position = index(name)) return *position;
    return run_.str(name);
  }

  Value first(std::string_view name) {
    std::optional<int64_t> position = index(name);
    if (name.empty()) {
      if (numbering_ == Numbering::kManual) {
        return run_.fail(
            "cannot switch from manual field specification to automatic field numbering"
        );
      }
      numbering_ = Numbering::kAutomatic;
      position = next_++;
    } else if (position) {
      if (numbering_ == Numbering::kAutomatic) {
        return run_.fail(
            "cannot switch from automatic field numbering to manual field specification"
        );
      }
      numbering_ = Numbering::kManual;
    }
    if (position) {
      const auto at = static_cast<size_t>(*position);
      if (at < arguments_.positional.size()) return arguments_.positional[at];
      return run_.fail(
          fmt::format("Replacement index {} out of range for positional args tuple", at)
      );
    }
    for (const auto& [keyword, value] : arguments_.keywords) {
      if (keyword == name) return value;
    }
    return run_.fail(fmt::format("'{}'", name));
  }

  // Parses [[fill]align][sign][#][0][width][grouping][.precision][type].
  std::optional<FormatSpec> parse(std::string_view view) {
    FormatSpec spec;
    size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
    const auto peek = [&] { return at < view.size() ? view[at] : '\0'; };
    const size_t fill_end = view.empty() ? 0 : code_point_end(view, 0);
    if (fill_end > 0 && fill_end < view.size() && is_align(view[fill_end])) {
      spec.fill = decode_utf8(view.substr(0, fill_end));
      spec.align = view[fill_end];
      at = fill_end + 1;
    } else if (is_align(peek())) {
      spec.align = view[at++];
    }
    if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = view[at++];
    if (peek() == '#') spec.is_alternate = ++at > 0;
    if (peek() == '0') {
      if (spec.align == '\0') {
        spec.fill = '0';
        spec.align = '=';
      }
      ++at;
    }
    spec.width = digits(view, at);
    if (peek() == ',' || peek() == '_') spec.grouping = view[at++];
    if (peek() == '.') {
      const std::optional<size_t> precision = digits(view, ++at);
      if (!precision) return run_.fail("Format specifier missing precision"), std::nullopt;
      spec.precision = static_cast<int>(std::min<size_t>(*precision, 1 << 24));
    }
    if (at < view.size()) spec.type = view[at++];
    if (at == view.size()) return spec;
    run_.fail("Invalid format specifier");
    return std::nullopt;
  }

  static std::optional<size_t> digits(std::string_view view, size_t& at) {
    std::optional<size_t> value;
    while (at < view.size() && view[at] >= '0' && view[at] <= '9') {
      const auto digit = static_cast<size_t>(view[at++] - '0');
      value = std::min<size_t>(value.value_or(0), size_t{1} << 40) * 10 + digit;
    }
    return value;
  }

  void append_formatted(const Value& value, std::string_view text, TextBuilder& out) {
    if (text.empty()) return append_str(run_, value, out);
    const std::optional<FormatSpec> spec = parse(text);
    if (!spec) return;
    if (value.is_number() && !(value.is_bool() && spec->type == '\0')) {
      size_t sign_size = 0;
      const Text number = format_number(run_, *spec, value, sign_size);
      return append_padded(*spec, number, sign_size, '>', out);
    }
    const bool is_text = value.text() != nullptr || value.is_bool();
    if (!is_text) {
      run_.fail(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
      return;
    }
    if (spec->type != '\0' && spec->type != 's') {
      run_.fail(fmt::format("Unknown format code '{}' for object of type 'str'", spec->type));
    }
    if (spec->align == '=' && spec->fill != '0') {
      run_.fail("'=' alignment not allowed in string format specifier");
    }
    Text body = to_text(run_, value);
    if (spec->precision) body = body.slice(0, body.byte_of(static_cast<size_t>(*spec->precision)));
    FormatSpec layout = *spec;
    if (layout.align == '=') layout.align = '<';
    append_padded(layout, body, 0, '<', out);
  }

  enum class Numbering { kNone, kAutomatic, kManual };

  Run& run_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::kNone;
  int64_t next_ = 0;
};

}  // namespace

Value format_braces(Run& run, const Text& format, const Arguments& arguments) {
  Text text = BraceFormatter(run, arguments).format(format, 1);
  return run.failed() ? Value() : run.str(std::move(text));
}

}  // namespace millrace::jinja
