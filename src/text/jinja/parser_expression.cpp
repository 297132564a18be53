#include <fmt/format.h>

#include <charconv>

#include "text/jinja/builtins/natives.h"
#include "text/jinja/parser_state.h"

namespace millrace::jinja {
namespace {

template <class Kind>
ExprPtr make(int line, Kind kind) {
  return std::make_unique<const Expr>(Expr{line, std::move(kind)});
}

ExprPtr constant(int line, Value value) {
  return make(line, Constant{std::move(value)});
}

}  // namespace

bool ExpressionParser::is_constant_name(const std::string& name) const {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

ExprPtr ExpressionParser::expression() {
  const ParserState::Nested nested(in_);
  const int line = in_.line();
  const size_t num_unknown = in_.num_unknown();
  ExprPtr result = disjunction();
  int num_conditions = 0;
  while (in_.skip_word("if")) {
    if (++num_conditions > in_.recursion_max()) in_.fail("the template is nested too deeply");
    ExprPtr condition = disjunction();
    ExprPtr otherwise = in_.skip_word("else") ? expression() : nullptr;
    result = make(line, Conditional{std::move(condition), std::move(result), std::move(otherwise)});
    in_.forget_unknown_since(num_unknown);
  }
  return result;
}

ExprPtr ExpressionParser::disjunction() {
  const int line = in_.line();
  std::vector<ExprPtr> operands;
  operands.push_back(conjunction());
  while (in_.skip_word("or")) operands.push_back(conjunction());
  if (operands.size() == 1) return std::move(operands[0]);
  return make(line, BoolChain{false, std::move(operands)});
}

ExprPtr ExpressionParser::conjunction() {
  const int line = in_.line();
  std::vector<ExprPtr> operands;
  operands.push_back(negation());
  while (in_.skip_word("and")) operands.push_back(negation());
  if (operands.size() == 1) return std::move(operands[0]);
  return make(line, BoolChain{true, std::move(operands)});
}

ExprPtr ExpressionParser::negation() {
  const int line = in_.line();
  if (!in_.skip_word("not")) return comparison();
  const ParserState::Nested nested(in_);
  return make(line, Unary{UnaryOperator::kNot, negation()});
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::kEqual},
      {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater},
      {">=", Comparison::kGreaterEqual},
  };
  const int line = in_.line();
  CompareChain chain{sum(), {}};
  while (!in_.failed()) {
    std::optional<Comparison> op;
    for (const auto& [text, comparison] : kOperators) {
      if (!op && in_.skip_op(text)) op = comparison;
    }
    if (!op && in_.skip_word("in")) op = Comparison::kIn;
    const Token& after = in_.following();
    if (!op && in_.is_word("not") && after.kind == TokenKind::kName && after.text == "in") {
      in_.next();
      in_.next();
      op = Comparison::kNotIn;
    }
    if (!op) break;
    chain.rest.emplace_back(*op, sum());
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

ExprPtr ExpressionParser::sum() {
  const int line = in_.line();
  BinaryChain chain{concatenation(), {}};
  while (in_.is_op("+") || in_.is_op("-")) {
    const auto op = in_.is_op("+") ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    in_.next();
    chain.rest.emplace_back(op, concatenation());
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

ExprPtr ExpressionParser::concatenation() {
  const int line = in_.line();
  std::vector<ExprPtr> operands;
  operands.push_back(product());
  while (in_.skip_op("~")) operands.push_back(product());
  if (operands.size() == 1) return std::move(operands[0]);
  return make(line, Concatenation{std::move(operands)});
}

ExprPtr ExpressionParser::product() {
  static constexpr std::pair<std::string_view, BinaryOperator> kOperators[] = {
      {"*", BinaryOperator::kMultiply},
      {"/", BinaryOperator::kDivide},
      {"//", BinaryOperator::kFloorDivide},
      {"%", BinaryOperator::kModulo},
  };
  const int line = in_.line();
  BinaryChain chain{power(), {}};
  while (!in_.failed()) {
    std::optional<BinaryOperator> op;
    for (const auto& [text, binary] : kOperators) {
      if (!op && in_.skip_op(text)) op = binary;
    }
    if (!op) break;
    chain.rest.emplace_back(*op, power());
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

// Jinja's power associates to the left, unlike Python's.
ExprPtr ExpressionParser::power() {
  const int line = in_.line();
  BinaryChain chain{unary(true), {}};
  while (in_.skip_op("**")) chain.rest.emplace_back(BinaryOperator::kPower, unary(true));
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  const int line = in_.line();
  ExprPtr base;
  if (in_.is_op("-") || in_.is_op("+")) {
    const ParserState::Nested nested(in_);
    const auto op = in_.is_op("-") ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    in_.next();
    base = make(line, Unary{op, unary(false)});
  } else {
    base = primary();
  }
  std::vector<Suffix> suffixes;
  postfixes(suffixes);
  if (with_filters) filters_and_tests(suffixes);
  return with_suffixes(std::move(base), std::move(suffixes), line);
}

ExprPtr ExpressionParser::with_suffixes(ExprPtr base, std::vector<Suffix> suffixes, int line) {
  if (suffixes.empty()) return base;
  return make(line, Postfix{std::move(base), std::move(suffixes)});
}

ExprPtr ExpressionParser::primary() {
  switch (in_.current().kind) {
    case TokenKind::kName:
      return name_or_constant();
    case TokenKind::kString:
      return string();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return number();
    default:
      break;
  }
  if (in_.is_op("(")) return parenthesized();
  if (in_.is_op("[")) return list();
  if (in_.is_op("{")) return dict();
  in_.fail(fmt::format("unexpected '{}'", in_.describe()));
  return nullptr;
}

ExprPtr ExpressionParser::name_or_constant() {
  const int line = in_.line();
  const std::string name = in_.expect_name();
  if (name == "true" || name == "True") return constant(line, true);
  if (name == "false" || name == "False") return constant(line, false);
  if (name == "none" || name == "None") return constant(line, None{});
  const NameId id = in_.intern(name);
  in_.note_use(id, true);
  return make(line, Name{id});
}

ExprPtr ExpressionParser::number() {
  const int line = in_.line();
  const Token token = in_.current();
  in_.next();
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    return constant(line, value);
  }
  const char prefix = token.text.size() > 1 ? static_cast<char>(token.text[1] | 0x20) : ' ';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  const char* begin = token.text.data() + (base == 10 ? 0 : 2);
  int64_t value = 0;
  const auto parsed = std::from_chars(begin, token.text.data() + token.text.size(), value, base);
  if (parsed.ec != std::errc()) in_.fail("an integer of more than 64 bits is not supported", line);
  return constant(line, value);
}

ExprPtr ExpressionParser::string() {
  const int line = in_.line();
  std::string value;
  while (in_.is(TokenKind::kString)) {
    value += in_.current().text;
    in_.next();
  }
  in_.note_member(value);
  return constant(line, std::make_shared<const Str>(Str{Text(std::move(value)), {}}));
}

ExprPtr ExpressionParser::parenthesized() {
  const ParserState::Nested nested(in_);
  const int line = in_.line();
  in_.expect_op("(");
  if (in_.skip_op(")")) return make(line, SequenceDisplay{true, {}});
  ExprPtr inner = tuple(true);
  in_.expect_op(")");
  return inner;
}

ExprPtr ExpressionParser::list() {
  const int line = in_.line();
  SequenceDisplay display;
  in_.expect_op("[");
  while (!in_.failed() && !in_.is_op("]")) {
    if (!display.items.empty()) in_.expect_op(",");
    if (in_.is_op("]")) break;
    display.items.push_back(expression());
  }
  in_.expect_op("]");
  return make(line, std::move(display));
}

ExprPtr ExpressionParser::dict() {
  const int line = in_.line();
  DictDisplay display;
  in_.expect_op("{");
  while (!in_.failed() && !in_.is_op("}")) {
    if (!display.entries.empty()) in_.expect_op(",");
    if (in_.is_op("}")) break;
    ExprPtr key = expression();
    in_.expect_op(":");
    display.entries.emplace_back(std::move(key), expression());
  }
  in_.expect_op("}");
  return make(line, std::move(display));
}

ExprPtr ExpressionParser::tuple(bool allows_if, std::string_view end_word) {
  const int line = in_.line();
  SequenceDisplay display{true, {}};
  bool has_comma = false;
  while (!in_.failed()) {
    if (!display.items.empty()) in_.expect_op(",");
    if (in_.is(TokenKind::kPrintEnd) || in_.is(TokenKind::kBlockEnd) || in_.is_op(")")) break;
    if (!end_word.empty() && in_.is_word(end_word)) break;
    display.items.push_back(allows_if ? expression() : disjunction());
    if (!in_.is_op(",")) break;
    has_comma = true;
  }
  if (has_comma) return make(line, std::move(display));
  if (display.items.empty()) {
    in_.fail(fmt::format("Expected an expression, got '{}'", in_.describe()));
    return nullptr;
  }
  return std::move(display.items[0]);
}

void ExpressionParser::postfixes(std::vector<Suffix>& out) {
  while (!in_.failed()) {
    if (in_.is_op(".")) {
      out.push_back(attribute());
    } else if (in_.is_op("[")) {
      out.push_back(subscript());
    } else if (in_.is_op("(")) {
      const int line = in_.line();
      out.push_back({line, Call{call_arguments()}});
    } else {
      return;
    }
  }
}

Suffix ExpressionParser::attribute() {
  const int line = in_.line();
  in_.expect_op(".");
  if (in_.is(TokenKind::kInteger)) return {line, GetItem{number()}};
  if (!in_.is(TokenKind::kName)) in_.fail("expected name or number");
  in_.note_member(in_.current().text);
  return {line, GetAttribute{in_.expect_name()}};
}

Suffix ExpressionParser::subscript() {
  const int line = in_.line();
  in_.expect_op("[");
  const auto part = [this]() -> ExprPtr {
    const bool is_absent = in_.is_op(":") || in_.is_op("]") || in_.is_op(",");
    return is_absent ? nullptr : expression();
  };
  ExprPtr first = part();
  if (in_.is_op(":")) {
    GetSlice slice{std::move(first), nullptr, nullptr};
    in_.next();
    slice.stop = part();
    if (in_.skip_op(":")) slice.step = part();
    if (in_.is_op(",")) in_.fail("a slice in a tuple of subscripts is not supported");
    in_.expect_op("]");
    return {line, std::move(slice)};
  }
  if (first == nullptr) {
    // Jinja reads x[] as the item at the empty tuple.
    in_.expect_op("]");
    return {line, GetItem{make(line, SequenceDisplay{true, {}})}};
  }
  if (in_.is_op(",")) {
    SequenceDisplay display{true, {}};
    display.items.push_back(std::move(first));
    while (in_.skip_op(",")) display.items.push_back(expression());
    first = make(line, std::move(display));
  }
  in_.expect_op("]");
  return {line, GetItem{std::move(first)}};
}

void ExpressionParser::filters_and_tests(std::vector<Suffix>& out) {
  while (!in_.failed()) {
    if (in_.is_op("|")) {
      in_.next();
      out.push_back(filter());
    } else if (in_.is_word("is")) {
      out.push_back(test());
    } else if (in_.is_op("(")) {
      const int line = in_.line();
      out.push_back({line, Call{call_arguments()}});
    } else {
      return;
    }
  }
}

std::vector<Suffix> ExpressionParser::filters(bool starts_inside) {
  std::vector<Suffix> result;
  if (starts_inside) result.push_back(filter());
  while (in_.skip_op("|")) result.push_back(filter());
  return result;
}

std::string ExpressionParser::dotted_name() {
  std::string name = in_.expect_name();
  while (in_.skip_op(".")) name.append(1, '.').append(in_.expect_name());
  return name;
}

Suffix ExpressionParser::filter() {
  const int line = in_.line();
  ApplyFilter result;
  result.name = dotted_name();
  result.native = find_filter(result.name);
  if (result.native == nullptr) {
    in_.note_unknown(fmt::format("No filter named '{}'.", result.name), line);
  }
  if (in_.is_op("(")) result.arguments = call_arguments();
  return {line, std::move(result)};
}

Suffix ExpressionParser::test() {
  const int line = in_.line();
  ApplyTest result;
  in_.expect_word("is");
  result.is_negated = in_.skip_word("not");
  result.name = dotted_name();
  result.native = find_test(result.name);
  if (result.native == nullptr) {
    in_.note_unknown(fmt::format("No test named '{}'.", result.name), line);
  }
  if (std::optional<CallArguments> arguments = test_arguments()) {
    result.arguments = std::move(*arguments);
  }
  return {line, std::move(result)};
}

// Arguments in parentheses, or one value without any: `x is divisibleby 3`.
std::optional<CallArguments> ExpressionParser::test_arguments() {
  if (in_.is_op("(")) return call_arguments();
  const bool starts_value = in_.is(TokenKind::kName) || in_.is(TokenKind::kString) ||
                            in_.is(TokenKind::kInteger) || in_.is(TokenKind::kFloat) ||
                            in_.is_op("[") || in_.is_op("{");
  if (!starts_value || in_.is_any_word({"else", "or", "and"})) return std::nullopt;
  if (in_.is_word("is")) in_.fail("You cannot chain multiple tests with is");
  const int line = in_.line();
  ExprPtr base = primary();
  std::vector<Suffix> suffixes;
  postfixes(suffixes);
  CallArguments arguments;
  arguments.positional.push_back(with_suffixes(std::move(base), std::move(suffixes), line));
  return arguments;
}

CallArguments ExpressionParser::call_arguments() {
  CallArguments result;
  in_.expect_op("(");
  bool needs_comma = false;
  while (!in_.failed() && !in_.is_op(")")) {
    if (needs_comma) {
      in_.expect_op(",");
      if (in_.is_op(")")) break;
    }
    call_argument(result);
    needs_comma = true;
  }
  in_.expect_op(")");
  return result;
}

void ExpressionParser::call_argument(CallArguments& out) {
  const bool is_ordered = out.star == nullptr && out.star_star == nullptr;
  const auto ensure = [this](bool condition) {
    if (!condition) in_.fail("invalid syntax for function call expression");
  };
  if (in_.skip_op("*")) {
    ensure(is_ordered);
    out.star = expression();
  } else if (in_.skip_op("**")) {
    ensure(out.star_star == nullptr);
    out.star_star = expression();
  } else if (in_.is(TokenKind::kName) && in_.following().kind == TokenKind::kOperator &&
             in_.following().text == "=") {
    ensure(out.star_star == nullptr);
    std::string name = in_.expect_name();
    in_.expect_op("=");
    for (const auto& [other, value] : out.keywords) ensure(other != name);
    out.keywords.emplace_back(std::move(name), expression());
  } else {
    ensure(is_ordered && out.keywords.empty());
    out.positional.push_back(expression());
  }
}

}  // namespace millrace::jinja
