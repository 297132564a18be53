// The arithmetic operators, with Python's rules for ints, floats, strings and lists.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"

namespace millrace::jinja {
namespace {

std::string_view symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "** or pow()";
  }
  return "";
}

Value unsupported_operands(Run& run, BinaryOperator op, const Value& a, const Value& b) {
  return run.fail(fmt::format(
      "unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b)
  ));
}

Value overflow(Run& run) {
  return run.fail_unsupported("an integer of more than 64 bits is not supported");
}

Value checked(Run& run, std::optional<int64_t> result) {
  return result ? Value(*result) : overflow(run);
}

Value integer_division(Run& run, BinaryOperator op, int64_t a, int64_t b) {
  if (b == 0) {
    return run.fail(
        op == BinaryOperator::kModulo ? "integer modulo by zero"
                                      : "integer division or modulo by zero"
    );
  }
  if (b == -1) {  // INT64_MIN / -1 does not fit
    if (op == BinaryOperator::kModulo) return int64_t{0};
    return a == INT64_MIN ? overflow(run) : Value(-a);
  }
  // Python rounds down and gives the remainder the divisor's sign.
  const bool rounds_down = a % b != 0 && ((a < 0) != (b < 0));
  if (op == BinaryOperator::kModulo) return a % b + (rounds_down ? b : 0);
  return a / b - (rounds_down ? 1 : 0);
}

Value integer_power(Run& run, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return run.fail("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  if (base == 0 || base == 1) return exponent == 0 ? int64_t{1} : base;
  if (base == -1) return int64_t{exponent % 2 == 0 ? 1 : -1};
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {  // at most 63 rounds before it overflows
    const std::optional<int64_t> next = checked_mul(result, base);
    if (!next) return overflow(run);
    result = *next;
  }
  return result;
}

Value integers(Run& run, BinaryOperator op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return checked(run, checked_add(a, b));
    case BinaryOperator::kSubtract: {
      int64_t result = 0;
      return __builtin_sub_overflow(a, b, &result) ? overflow(run) : Value(result);
    }
    case BinaryOperator::kMultiply:
      return checked(run, checked_mul(a, b));
    case BinaryOperator::kDivide:
      if (b == 0) return run.fail("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo:
      return integer_division(run, op, a, b);
    case BinaryOperator::kPower:
      return integer_power(run, a, b);
  }
  return {};
}

double float_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// As CPython's float_floor_div: from the remainder, so that rounding cannot skip an integer.
double float_floor_division(double a, double b) {
  const double quotient = (a - float_modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value floats(Run& run, BinaryOperator op, double a, double b) {
  const bool divides = op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide ||
                       op == BinaryOperator::kModulo;
  if (divides && b == 0) {
    if (op == BinaryOperator::kDivide) return run.fail("float division by zero");
    return run.fail(
        op == BinaryOperator::kModulo ? "float modulo" : "float floor division by zero"
    );
  }
  switch (op) {
    case BinaryOperator::kAdd:
      return a + b;
    case BinaryOperator::kSubtract:
      return a - b;
    case BinaryOperator::kMultiply:
      return a * b;
    case BinaryOperator::kDivide:
      return a / b;
    case BinaryOperator::kFloorDivide:
      return float_floor_division(a, b);
    case BinaryOperator::kModulo:
      return float_modulo(a, b);
    case BinaryOperator::kPower:
      break;
  }
  if (a == 0 && b < 0) return run.fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    return run.fail_unsupported("complex numbers are not supported");
  }
  const double result = std::pow(a, b);
  const bool overflows = std::isinf(result) && std::isfinite(a) && std::isfinite(b);
  return overflows ? run.fail("(34, 'Numerical result out of range')") : Value(result);
}

Value repeat(Run& run, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (const Text* text = value.text()) {
    TextBuilder out = run.builder();
    out.append_repeated(*text, times);
    return run.str(out);
  }
  const Sequence& sequence = *value.sequence();
  const std::optional<size_t> size = checked_mul(sequence.items.size(), times);
  if (!size) return run.fail_limit("a list of the chat template is too large");
  if (!run.step(*size)) return {};
  std::vector<Value> items;
  items.reserve(*size);
  for (size_t i = 0; i<times&& * size> 0; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return run.sequence(
      std::move(items), is_list(value) ? SequenceKind::kList : SequenceKind::kTuple
  );
}

Value add_sequences(Run& run, const Value& a, const Value& b) {
  std::vector<Value> items = iterate(run, a);
  for (Value& item : iterate(run, b)) items.push_back(std::move(item));
  return run.sequence(std::move(items), is_list(a) ? SequenceKind::kList : SequenceKind::kTuple);
}

bool is_repeatable(const Value& value) {
  return value.text() != nullptr || is_list(value) || is_tuple(value);
}

Value add(Run& run, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    TextBuilder out = run.builder();
    out.append(*a.text());
    out.append(*b.text());
    return run.str(out);
  }
  if ((is_list(a) && is_list(b)) || (is_tuple(a) && is_tuple(b))) return add_sequences(run, a, b);
  if (is_repeatable(a)) {
    return run.fail(fmt::format(
        "can only concatenate {0} (not \"{1}\") to {0}",
        type_name(a) == "_GroupTuple" ? "tuple" : type_name(a),
        type_name(b)
    ));
  }
  return unsupported_operands(run, BinaryOperator::kAdd, a, b);
}

}  // namespace

Value binary(Run& run, BinaryOperator op, const Value& a, const Value& b) {
  if (!run.step()) return {};
  const std::optional<int64_t> x = a.as_int();
  const std::optional<int64_t> y = b.as_int();
  if (x && y) return integers(run, op, *x, *y);
  const bool has_float = a.is_float() || b.is_float();
  const bool has_large = a.large_int() != nullptr || b.large_int() != nullptr;
  if (a.is_number() && b.is_number() && has_large && !has_float) return overflow(run);
  if (a.is_number() && b.is_number()) return floats(run, op, a.as_double(), b.as_double());
  if (op == BinaryOperator::kModulo && a.text() != nullptr) {
    return format_percent(run, *a.text(), b);
  }
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return run.call(*side, {});  // fails with its story
  }
  if (op == BinaryOperator::kAdd) return add(run, a, b);
  if (op == BinaryOperator::kMultiply) {
    if (is_repeatable(a) && y) return repeat(run, a, *y);
    if (is_repeatable(b) && x) return repeat(run, b, *x);
    if (is_repeatable(a) || is_repeatable(b)) {
      const Value& other = is_repeatable(a) ? b : a;
      return run.fail(
          fmt::format("can't multiply sequence by non-int of type '{}'", type_name(other))
      );
    }
  }
  return unsupported_operands(run, op, a, b);
}

Value unary(Run& run, UnaryOperator op, const Value& operand) {
  if (op == UnaryOperator::kNot) return !truth(run, operand);
  if (operand.is_undefined()) return run.call(operand, {});
  if (const std::optional<int64_t> integer = operand.as_int()) {
    if (op == UnaryOperator::kPlus) return *integer;
    return *integer == INT64_MIN ? overflow(run) : Value(-*integer);
  }
  if (operand.large_int() != nullptr) {
    return op == UnaryOperator::kPlus ? operand : overflow(run);
  }
  if (operand.is_float()) {
    return op == UnaryOperator::kPlus ? operand.as_double() : -operand.as_double();
  }
  return run.fail(fmt::format(
      "bad operand type for unary {}: '{}'",
      op == UnaryOperator::kMinus ? "-" : "+",
      type_name(operand)
  ));
}

}  // namespace millrace::jinja
