// The filters over numbers and over values of any kind.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/builtins/parse_number.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"

namespace millrace::jinja {
namespace {

Value abs_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "abs", {});
  if (self.is_float()) return std::fabs(self.as_double());
  if (self.large_int() != nullptr) return self;
  const std::optional<int64_t> integer = self.as_int();
  if (integer) return *integer < 0 ? unary(run, UnaryOperator::kMinus, self) : Value(*integer);
  if (self.is_undefined()) return run.call(self, {});
  return run.fail(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
}

// Only what getattr() finds: a key of a dict is no attribute.
Value attr_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "attr", {"name"}, 1);
  const Text* name = bound.string(0);
  if (run.failed()) return {};
  const bool is_key = self.dict() != nullptr && self.dict()->find(name->view()) != nullptr &&
                      find_dict_method(name->view()) == nullptr;
  if (is_key) {
    return run.undefined(
        fmt::format("'{}' has no attribute '{}'", object_type_name(self), name->view())
    );
  }
  return get_attribute(run, self, name->view());
}

Value default_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "default", {"default_value", "boolean"});
  if (run.failed()) return {};
  const bool is_replaced = self.is_undefined() || (bound.truth(1, false) && !truth(run, self));
  if (!is_replaced) return self;
  return bound.at(0) == nullptr ? run.str("") : *bound.at(0);
}

Value length_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "length", {});
  const std::optional<int64_t> size = length(run, self);
  if (size) return *size;
  return run.fail(fmt::format("object of type '{}' has no len()", type_name(self)));
}

// int() of a float; nullopt for what has no integer part.
std::optional<Value> truncated(Run& run, double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::fabs(value) < 9.2e18) return Value(static_cast<int64_t>(value));
  return run.fail_unsupported("an integer of more than 64 bits is not supported");
}

Value int_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "int", {"default", "base"});
  const Value otherwise = bound.value(0, int64_t{0});
  const int64_t base = bound.integer(1, 10);
  if (run.failed()) return {};
  if (self.is_undefined()) return run.call(self, {});
  if (const Text* text = self.text()) {
    if (const std::optional<ParsedInteger> parsed = parse_integer(text->view(), base)) {
      if (!parsed->overflows) return parsed->value;
      return run.fail_unsupported("an integer of more than 64 bits is not supported");
    }
    const std::optional<double> number = parse_float(text->view());
    return number ? truncated(run, *number).value_or(otherwise) : otherwise;
  }
  if (const std::optional<int64_t> integer = self.as_int()) return *integer;
  if (self.large_int() != nullptr) return self;
  if (!self.is_float()) return otherwise;
  if (std::isinf(self.as_double())) return run.fail("cannot convert float infinity to integer");
  return truncated(run, self.as_double()).value_or(otherwise);
}

Value float_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "float", {"default"});
  if (run.failed()) return {};
  if (self.is_undefined()) return run.call(self, {});
  if (self.is_number()) return self.as_double();
  const Text* text = self.text();
  const std::optional<double> number = text == nullptr ? std::nullopt : parse_float(text->view());
  return number ? Value(*number) : bound.value(0, 0.0);
}

// Half to even, of the exact binary value: printf rounds so.
double round_to(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 323) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision >= 0) {
    return std::strtod(fmt::format("{:.{}f}", value, static_cast<int>(precision)).c_str(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / scale) * scale;
}

Value round_integer(Run& run, int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return int64_t{0};
  int64_t scale = 1;
  for (int64_t i = 0; i < -precision; ++i) scale *= 10;
  int64_t quotient = value / scale;
  const int64_t remainder = value % scale;
  const int64_t doubled = 2 * (remainder < 0 ? -remainder : remainder);
  const bool rounds_away = doubled > scale || (doubled == scale && quotient % 2 != 0);
  if (rounds_away) quotient += value < 0 ? -1 : 1;
  return binary(run, BinaryOperator::kMultiply, quotient, scale);
}

Value round_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "round", {"precision", "method"});
  const int64_t precision = bound.integer(0, 0);
  const Text method = bound.text(1, "common");
  if (run.failed()) return {};
  if (method.view() != "common" && method.view() != "ceil" && method.view() != "floor") {
    return run.fail("method must be common, ceil or floor");
  }
  if (self.is_undefined()) return run.call(self, {});
  if (!self.is_number()) {
    return run.fail(fmt::format("type {} doesn't define __round__ method", type_name(self)));
  }
  if (method.view() == "common") {
    if (self.as_int()) return round_integer(run, *self.as_int(), precision);
    if (self.large_int() != nullptr && precision >= 0) return self;
    return round_to(self.as_double(), precision);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.as_double() * scale;
  if (!std::isfinite(scaled)) return run.fail("cannot convert float infinity to integer");
  const double rounded = method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (scale == 0) return run.fail("division by zero");
  return (rounded == 0 ? 0.0 : rounded) / scale;  // an int in between: it has no negative zero
}

// Two strings as a list or tuple.
bool set_separators(Run& run, const Value& value, JsonStyle& style) {
  const std::vector<Value> parts = iterate(run, value);
  const bool is_pair =
      parts.size() == 2 && parts[0].text() != nullptr && parts[1].text() != nullptr;
  if (!is_pair) return run.fail("separators must be a pair of strings"), false;
  style.item_separator = *parts[0].text();
  style.key_separator = *parts[1].text();
  return true;
}

// Hugging Face's tojson, which escapes nothing for HTML.
Value tojson_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(
      run, arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}
  );
  JsonStyle style;
  style.ensure_ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  if (const Value* indent = bound.some(1)) {
    const auto num_spaces = std::max<int64_t>(indent->as_int().value_or(0), 0);
    TextBuilder spaces = run.builder();
    spaces.append_repeated(Text(" "), static_cast<size_t>(num_spaces));
    if (indent->text() == nullptr && !indent->as_int()) {
      return run.fail(
          fmt::format("can't multiply sequence by non-int of type '{}'", type_name(*indent))
      );
    }
    if (spaces.overflowed()) return run.fail_limit("a string of the chat template is too large");
    style.indent = indent->text() != nullptr ? *indent->text() : spaces.take();
    style.item_separator = Text(",");
  }
  const Value* separators = bound.some(2);
  if (run.failed() || (separators != nullptr && !set_separators(run, *separators, style)))
    return {};
  TextBuilder out = run.builder();
  append_json(run, self, style, out);
  return run.failed() ? Value() : run.str(out);
}

Value refused_filter(Run& run, const Value&, const Arguments&) {
  return run.fail_unsupported(
      "the filters filesizeformat, pprint, random, urlize, wordwrap and xmlattr are not supported "
      "in chat templates"
  );
}

}  // namespace

const std::vector<NamedNative>& value_filters() {
  static const std::vector<NamedNative> kTable = {
      {"abs", abs_filter},
      {"attr", attr_filter},
      {"count", length_filter},
      {"d", default_filter},
      {"default", default_filter},
      {"filesizeformat", refused_filter},
      {"float", float_filter},
      {"int", int_filter},
      {"length", length_filter},
      {"pprint", refused_filter},
      {"random", refused_filter},
      {"round", round_filter},
      {"tojson", tojson_filter},
      {"urlize", refused_filter},
      {"wordwrap", refused_filter},
      {"xmlattr", refused_filter},
  };
  return kTable;
}

}  // namespace millrace::jinja
