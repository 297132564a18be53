// The % operator of strings: printf's directives with Python's types.
#include <fmt/format.h>

#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Run& run, const Text& format, const Value& values)
      : run_(run), format_(format), view_(format.view()), values_(values), out_(run.builder()) {}

  Value format() {
    while (at_ < view_.size() && !run_.failed() && !out_.overflowed()) {
      const size_t percent = std::min(view_.find('%', at_), view_.size());
      out_.append(format_, at_, percent);
      at_ = percent + 1;
      if (percent < view_.size()) directive();
    }
    const bool is_positional = is_tuple(values_);
    const bool has_rest = is_positional ? next_ < values_.sequence()->items.size()
                                        : next_ == 0 && !used_key_ && values_.dict() == nullptr;
    const bool is_list_like = values_.sequence() != nullptr && !is_positional;
    if (has_rest && !is_list_like) {
      run_.fail("not all arguments converted during string formatting");
    }
    return run_.failed() ? Value() : run_.str(out_);
  }

 private:
  char take() {
    if (at_ < view_.size()) return view_[at_++];
    run_.fail("incomplete format");
    return '\0';
  }

  Value next_value() {
    if (!is_tuple(values_)) {
      if (next_++ == 0) return values_;
    } else if (next_ < values_.sequence()->items.size()) {
      return values_.sequence()->items[next_++];
    }
    return run_.fail("not enough arguments for format string");
  }

  Value keyed_value() {
    const size_t close = view_.find(')', at_);
    if (close == std::string_view::npos) return run_.fail("incomplete format key");
    const std::string_view key = view_.substr(at_, close - at_);
    at_ = close + 1;
    used_key_ = true;
    if (values_.dict() == nullptr) return run_.fail("format requires a mapping");
    const Value* found = values_.dict()->find(key);
    return found != nullptr ? *found : run_.fail(fmt::format("'{}'", key));
  }

  // A width or precision, which may be a * that takes an argument.
  std::optional<size_t> number() {
    if (at_ < view_.size() && view_[at_] == '*') {
      ++at_;
      const Value value = next_value();
      const std::optional<int64_t> size = value.as_int();
      if (!size || *size < 0) run_.fail("* wants int");
      return run_.failed() ? 0 : static_cast<size_t>(*size);
    }
    std::optional<size_t> result;
    while (at_ < view_.size() && view_[at_] >= '0' && view_[at_] <= '9') {
      result = std::min<size_t>(result.value_or(0), run_.limits().string_bytes_max) * 10 +
               static_cast<size_t>(view_[at_++] - '0');
    }
    return result;
  }

  void directive() {
    std::optional<Value> keyed;
    if (at_ < view_.size() && view_[at_] == '(') {
      ++at_;
      keyed = keyed_value();
    }
    FormatSpec spec;
    char align = '>';
    for (; at_ < view_.size(); ++at_) {
      const char flag = view_[at_];
      if (flag == '-') {
        align = '<';
      } else if (flag == '0') {
        spec.fill = '0';
      } else if (flag == '+' || (flag == ' ' && spec.sign != '+')) {
        spec.sign = flag;
      } else if (flag == '#') {
        spec.is_alternate = true;
      } else if (flag != ' ') {
        break;
      }
    }
    spec.width = number();
    if (at_ < view_.size() && view_[at_] == '.') {
      ++at_;
      spec.precision = static_cast<int>(std::min<size_t>(number().value_or(0), 1 << 24));
    }
    while (at_ < view_.size() && (view_[at_] == 'l' || view_[at_] == 'h' || view_[at_] == 'L'))
      ++at_;
    const char type = take();
    if (run_.failed()) return;
    if (type == '%') return out_.append("%");
    convert(type, spec, align, keyed ? *keyed : next_value());
  }

  void convert(char type, FormatSpec spec, char align, const Value& value) {
    if (run_.failed()) return;
    if (type == 's' || type == 'r' || type == 'a') return convert_text(type, spec, align, value);
    spec.align = align == '<' ? '<' : (spec.fill == '0' ? '=' : '>');
    if (align == '<') spec.fill = ' ';
    if (type == 'c') return convert_character(spec, value);
    const bool is_integer = std::string_view("diuxXo").find(type) != std::string_view::npos;
    const bool is_float = std::string_view("eEfFgG").find(type) != std::string_view::npos;
    if (!is_integer && !is_float) {
      // `type` may be the first byte of several.
      const size_t begin = at_ - 1;
      const size_t end = code_point_end(view_, begin);
      run_.fail(fmt::format("unsupported format character '{}'", view_.substr(begin, end - begin)));
      return;
    }
    if (value.is_undefined()) {
      run_.call(value, {});
      return;
    }
    if (!value.is_number()) {
      run_.fail(
          is_integer
              ? fmt::format("%{} format: a real number is required, not {}", type, type_name(value))
              : fmt::format("must be real number, not {}", type_name(value))
      );
      return;
    }
    convert_number(type, is_integer, spec, value);
  }

  void convert_number(char type, bool is_integer, FormatSpec spec, const Value& value) {
    Value number = value;
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (is_integer && value.is_float()) {
      const double real = value.as_double();
      const bool fits = real > -9.2e18 && real < 9.2e18;
      if (!fits || type == 'x' || type == 'X' || type == 'o') {
        run_.fail(fmt::format("%{} format: an integer is required, not float", type));
        return;
      }
      number = static_cast<int64_t>(real);
    }
    std::optional<int> num_digits = spec.precision;
    if (is_integer) spec.precision.reset();
    size_t sign_size = 0;
    Text text = format_number(run_, spec, number, sign_size);
    if (is_integer && num_digits) {  // a precision is the least number of digits
      FormatSpec zeros;
      zeros.fill = '0';
      zeros.align = '=';
      zeros.width = static_cast<size_t>(*num_digits) + sign_size;
      TextBuilder padded = run_.builder();
      append_padded(zeros, text, sign_size, '=', padded);
      text = padded.take();
    }
    append_padded(spec, text, sign_size, '>', out_);
  }

  void convert_text(char type, FormatSpec spec, char align, const Value& value) {
    TextBuilder builder = run_.builder();
    if (type == 's') {
      append_str(run_, value, builder);
    } else if (type == 'r') {
      append_repr(run_, value, builder);
    } else {
      append_ascii(run_, value, builder);
    }
    Text text = builder.take();
    if (spec.precision) text = text.slice(0, text.byte_of(static_cast<size_t>(*spec.precision)));
    spec.fill = ' ';
    spec.align = align;
    append_padded(spec, text, 0, '>', out_);
  }

  void convert_character(FormatSpec spec, const Value& value) {
    const Text* text = value.text();
    const std::optional<int64_t> code = value.as_int();
    spec.fill = ' ';
    if (spec.align == '=') spec.align = '>';
    if (text != nullptr && text->num_code_points() == 1)
      return append_padded(spec, *text, 0, '>', out_);
    if (!code || *code < 0 || *code > 0x10ffff) {
      run_.fail("%c requires int or char");
      return;
    }
    append_padded(spec, Text(to_utf8(static_cast<char32_t>(*code))), 0, '>', out_);
  }

  Run& run_;
  const Text& format_;
  const std::string_view view_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;
  bool used_key_ = false;
};

}  // namespace

Value format_percent(Run& run, const Text& format, const Value& values) {
  return PercentFormatter(run, format, values).format();
}

}  // namespace millrace::jinja
