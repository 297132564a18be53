// Jinja's tests: what may stand after `is`.
#include <fmt/format.h>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

template <bool (*predicate)(Run&, const Value&)>
Value simple(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "test", {});
  return run.failed() ? Value() : Value(predicate(run, self));
}

bool is_defined(Run&, const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(Run&, const Value& value) {
  return value.is_undefined();
}
bool is_none(Run&, const Value& value) {
  return value.is_none();
}
bool is_boolean(Run&, const Value& value) {
  return value.is_bool();
}
bool is_true(Run&, const Value& value) {
  return value.is_bool() && *value.boolean();
}
bool is_false(Run&, const Value& value) {
  return value.is_bool() && !*value.boolean();
}
bool is_integer(Run&, const Value& value) {
  return value.is_int();
}
bool is_float(Run&, const Value& value) {
  return value.is_float();
}
bool is_number(Run&, const Value& value) {
  return value.is_number();
}
bool is_string(Run&, const Value& value) {
  return value.text() != nullptr;
}
bool is_mapping(Run&, const Value& value) {
  return value.dict() != nullptr;
}
bool is_callable_test(Run&, const Value& value) {
  return is_callable(value);
}
bool is_iterable_test(Run&, const Value& value) {
  return is_iterable(value);
}
bool is_escaped(Run&, const Value&) {
  return false;
}

// What has a length and a way to get items; undefined has both, views and iterators have not.
bool is_sequence(Run&, const Value& value) {
  return value.is_undefined() || value.text() != nullptr || value.dict() != nullptr ||
         value.range() != nullptr || is_list(value) || is_tuple(value);
}

template <bool wants_upper>
bool has_case(Run& run, const Value& value) {
  const Text text = to_text(run, value);
  const Value string = run.str(text);
  if (run.failed()) return false;
  const Native method = find_string_method(wants_upper ? "isupper" : "islower");
  return truth(run, method(run, string, Arguments()));
}

template <int64_t remainder>
Value parity(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "test", {});
  const Value rest = binary(run, BinaryOperator::kModulo, self, int64_t{2});
  return !run.failed() && equals(run, rest, remainder);
}

Value divisible_by(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "divisibleby", {"num"}, 1);
  if (run.failed()) return {};
  const Value rest = binary(run, BinaryOperator::kModulo, self, *bound.at(0));
  return !run.failed() && equals(run, rest, int64_t{0});
}

template <Comparison op>
Value comparison(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "test", {"other"}, 1);
  return run.failed() ? Value() : Value(compare(run, op, self, *bound.at(0)));
}

Value same_as(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "sameas", {"other"}, 1);
  return run.failed() ? Value() : Value(self.is_same(*bound.at(0)));
}

Value filter_exists(Run&, const Value& self, const Arguments&) {
  return self.text() != nullptr && find_filter(self.text()->view()) != nullptr;
}

Value test_exists(Run&, const Value& self, const Arguments&) {
  return self.text() != nullptr && find_test(self.text()->view()) != nullptr;
}

}  // namespace

Native find_test(std::string_view name) {
  static const std::vector<NamedNative> kTable = {
      {"!=", comparison<Comparison::kNotEqual>},
      {"<", comparison<Comparison::kLess>},
      {"<=", comparison<Comparison::kLessEqual>},
      {"==", comparison<Comparison::kEqual>},
      {">", comparison<Comparison::kGreater>},
      {">=", comparison<Comparison::kGreaterEqual>},
      {"boolean", simple<is_boolean>},
      {"callable", simple<is_callable_test>},
      {"defined", simple<is_defined>},
      {"divisibleby", divisible_by},
      {"eq", comparison<Comparison::kEqual>},
      {"equalto", comparison<Comparison::kEqual>},
      {"escaped", simple<is_escaped>},
      {"even", parity<0>},
      {"false", simple<is_false>},
      {"filter", filter_exists},
      {"float", simple<is_float>},
      {"ge", comparison<Comparison::kGreaterEqual>},
      {"greaterthan", comparison<Comparison::kGreater>},
      {"gt", comparison<Comparison::kGreater>},
      {"in", comparison<Comparison::kIn>},
      {"integer", simple<is_integer>},
      {"iterable", simple<is_iterable_test>},
      {"le", comparison<Comparison::kLessEqual>},
      {"lessthan", comparison<Comparison::kLess>},
      {"lower", simple<has_case<false>>},
      {"lt", comparison<Comparison::kLess>},
      {"mapping", simple<is_mapping>},
      {"ne", comparison<Comparison::kNotEqual>},
      {"none", simple<is_none>},
      {"number", simple<is_number>},
      {"odd", parity<1>},
      {"sameas", same_as},
      {"sequence", simple<is_sequence>},
      {"string", simple<is_string>},
      {"test", test_exists},
      {"true", simple<is_true>},
      {"undefined", simple<is_undefined>},
      {"upper", simple<has_case<true>>},
  };
  return find_in(kTable, name);
}

}  // namespace millrace::jinja
