#include "text/jinja/parser.h"

#include <fmt/format.h>

#include "text/jinja/parser_state.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {

void ParserState::expect_op(std::string_view op) {
  if (is_op(op)) return next();
  if (is(TokenKind::kEnd))
    return fail(fmt::format("unexpected end of template, expected '{}'.", op));
  fail(fmt::format("expected token '{}', got '{}'", op, describe()));
}

void ParserState::expect_word(std::string_view word) {
  if (is_word(word)) return next();
  fail(fmt::format("expected token '{}', got '{}'", word, describe()));
}

void ParserState::expect(TokenKind kind) {
  if (is(kind)) return next();
  const std::string_view wanted =
      kind == TokenKind::kBlockEnd ? "end of statement block" : "end of print statement";
  if (is(TokenKind::kEnd)) {
    return fail(fmt::format("unexpected end of template, expected '{}'.", wanted));
  }
  fail(fmt::format("expected token '{}', got '{}'", wanted, describe()));
}

std::string ParserState::expect_name() {
  std::string name = current().text;
  if (is(TokenKind::kName)) {
    next();
  } else {
    fail(fmt::format("expected token 'name', got '{}'", describe()));
  }
  return name;
}

std::string ParserState::describe() const {
  switch (current().kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kPrintBegin:
      return "begin of print statement";
    case TokenKind::kPrintEnd:
      return "end of print statement";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kName:
    case TokenKind::kOperator:
      break;
  }
  return current().text;
}

NameId ParserState::intern(const std::string& name) {
  const auto [found, is_new] = name_ids_.emplace(name, static_cast<NameId>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

bool ParserState::is_loaded_since(size_t first_use, NameId name) const {
  for (size_t i = first_use; i < uses_.size(); ++i) {
    if (uses_[i].first == name) return uses_[i].second;
  }
  return false;
}

Reads ParserState::take_reads() {
  Reads reads{.names = {}, .members = std::move(members_)};
  for (const auto& [name, is_load] : uses_) {
    if (is_load) reads.names.insert(names_[name]);
  }
  return reads;
}

namespace {

// Restores a value of the parser's state when a statement ends.
template <class T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(place) { place_ = value; }
  ~Restored() { place_ = before_; }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

// The grammar of statements.
class StatementParser {
 public:
  explicit StatementParser(ParserState& state) : in_(state), expressions_(state) {}

  // Everything up to one of `ends`, which is left as the current token; or up to the end.
  Body body_until(std::initializer_list<std::string_view> ends);

 private:
  Statement statement();
  Statement unknown_tag(const std::string& name);
  // The body of a tag whose own head was just read.
  Body block(std::initializer_list<std::string_view> ends);
  Body block_to(std::string_view end);

  void print_statement(Body& out);
  Statement for_statement();
  Statement if_statement();
  Statement set_statement();
  Statement macro_statement();
  Statement call_statement();
  Statement filter_statement();
  Statement with_statement();
  Statement generation_statement();
  Statement jump(bool is_break);

  Target target(bool allows_attribute, std::string_view end_word);
  Target target_item(bool allows_attribute);
  NameId stored_name();
  void signature(MacroBody& macro);
  void macro_body(MacroBody& macro, std::string_view end);

  ParserState& in_;
  ExpressionParser expressions_;
};

Body StatementParser::body_until(std::initializer_list<std::string_view> ends) {
  const ParserState::Nested nested(in_);
  Body body;
  while (!in_.failed() && !in_.is(TokenKind::kEnd)) {
    const int line = in_.line();
    if (in_.is(TokenKind::kData)) {
      body.push_back({line, Data{Text(in_.current().text)}});
      in_.next();
    } else if (in_.is(TokenKind::kPrintBegin)) {
      in_.next();
      body.push_back({line, Print{expressions_.tuple(true)}});
      in_.expect(TokenKind::kPrintEnd);
    } else {
      in_.next();  // the only other token between tags is the start of a statement
      if (in_.is_any_word(ends)) return body;
      if (in_.is_word("print")) {
        print_statement(body);
      } else {
        body.push_back(statement());
      }
      in_.expect(TokenKind::kBlockEnd);
    }
  }
  if (ends.size() > 0) in_.fail("Unexpected end of template. A block was not closed.");
  return body;
}

Body StatementParser::block(std::initializer_list<std::string_view> ends) {
  in_.skip_op(":");
  in_.expect(TokenKind::kBlockEnd);
  return body_until(ends);
}

Body StatementParser::block_to(std::string_view end) {
  Body body = block({end});
  in_.expect_word(end);
  return body;
}

Statement StatementParser::statement() {
  const int line = in_.line();
  if (!in_.is(TokenKind::kName)) {
    in_.fail("tag name expected");
    return {line, Break{}};
  }
  const std::string name = in_.current().text;
  in_.next();
  Statement result;
  if (name == "for") {
    result = for_statement();
  } else if (name == "if") {
    result = if_statement();
  } else if (name == "set") {
    result = set_statement();
  } else if (name == "macro") {
    result = macro_statement();
  } else if (name == "call") {
    result = call_statement();
  } else if (name == "filter") {
    result = filter_statement();
  } else if (name == "with") {
    result = with_statement();
  } else if (name == "generation") {
    result = generation_statement();
  } else if (name == "break" || name == "continue") {
    result = jump(name == "break");
  } else {
    result = unknown_tag(name);
  }
  result.line = line;
  return result;
}

Statement StatementParser::unknown_tag(const std::string& name) {
  static constexpr std::string_view kRefused[] = {
      "include", "import", "from", "extends", "block", "autoescape"};
  const bool is_refused =
      std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
  in_.fail(
      is_refused ? fmt::format("the tag '{}' is not supported in chat templates", name)
                 : fmt::format("Encountered unknown tag '{}'.", name)
  );
  return {};
}

void StatementParser::print_statement(Body& out) {
  in_.expect_word("print");
  bool is_first = true;
  while (!in_.failed() && !in_.is(TokenKind::kBlockEnd)) {
    if (!is_first) in_.expect_op(",");
    is_first = false;
    const int line = in_.line();
    out.push_back({line, Print{expressions_.expression()}});
  }
}

Statement StatementParser::for_statement() {
  For result;
  const Restored in_for(in_.for_depth, in_.for_depth + 1);
  result.target = target(false, "in");
  in_.expect_word("in");
  result.iterable = expressions_.tuple(false, "recursive");
  const Restored hard(in_.is_soft, false);
  if (in_.skip_word("if")) result.condition = expressions_.expression();
  result.is_recursive = in_.skip_word("recursive");
  {
    const Restored in_loop(in_.loop_depth, in_.loop_depth + 1);
    result.body = block({"endfor", "else"});
  }
  if (in_.skip_word("else")) {
    result.otherwise = block_to("endfor");
  } else {
    in_.expect_word("endfor");
  }
  return {0, std::move(result)};
}

Statement StatementParser::if_statement() {
  If result;
  const Restored soft(in_.is_soft, true);
  while (!in_.failed()) {
    ExprPtr condition = expressions_.tuple(false);
    result.branches.emplace_back(std::move(condition), block({"elif", "else", "endif"}));
    if (in_.skip_word("elif")) continue;
    if (in_.skip_word("else")) {
      result.otherwise = block_to("endif");
    } else {
      in_.expect_word("endif");
    }
    break;
  }
  return {0, std::move(result)};
}

Statement StatementParser::set_statement() {
  Target place = target(true, {});
  if (in_.skip_op("=")) return {0, Set{std::move(place), expressions_.tuple(true)}};
  SetBlock result;
  result.target = std::move(place);
  const Restored hard(in_.is_soft, false);
  result.filters = expressions_.filters(false);
  result.body = block_to("endset");
  return {0, std::move(result)};
}

Statement StatementParser::macro_statement() {
  auto macro = std::make_unique<MacroBody>();
  macro->name = in_.current().text;
  const NameId name = stored_name();
  macro_body(*macro, "endmacro");
  return {0, DefineMacro{name, std::move(macro)}};
}

Statement StatementParser::call_statement() {
  CallBlock result;
  auto caller = std::make_unique<MacroBody>();
  if (in_.is_op("(")) signature(*caller);
  const int line = in_.line();
  result.call = expressions_.expression();
  const Postfix* call = result.call == nullptr ? nullptr : std::get_if<Postfix>(&result.call->kind);
  if (call == nullptr || !std::holds_alternative<Call>(call->suffixes.back().kind)) {
    in_.fail("expected call", line);
  }
  macro_body(*caller, "endcall");
  result.caller = std::move(caller);
  return {0, std::move(result)};
}

Statement StatementParser::filter_statement() {
  FilterBlock result;
  const Restored hard(in_.is_soft, false);
  result.filters = expressions_.filters(true);
  result.body = block_to("endfilter");
  return {0, std::move(result)};
}

Statement StatementParser::with_statement() {
  With result;
  while (!in_.failed() && !in_.is(TokenKind::kBlockEnd) && !in_.is_op(":")) {
    if (!result.bindings.empty()) in_.expect_op(",");
    Target place = target_item(false);
    in_.expect_op("=");
    result.bindings.emplace_back(std::move(place), expressions_.expression());
  }
  const Restored hard(in_.is_soft, false);
  result.body = block_to("endwith");
  return {0, std::move(result)};
}

// Marks what the assistant said, for training; the text is all that counts here.
Statement StatementParser::generation_statement() {
  const Restored hard(in_.is_soft, false);
  const Restored no_loop(in_.loop_depth, 0);
  return {0, Scoped{block_to("endgeneration")}};
}

Statement StatementParser::jump(bool is_break) {
  if (in_.loop_depth == 0) in_.fail(is_break ? "'break' outside loop" : "'continue' outside loop");
  if (is_break) return {0, Break{}};
  return {0, Continue{}};
}

NameId StatementParser::stored_name() {
  const std::string name = in_.expect_name();
  if (expressions_.is_constant_name(name)) in_.fail("can't assign to 'const'");
  const NameId id = in_.intern(name);
  in_.note_use(id, false);
  return id;
}

Target StatementParser::target_item(bool allows_attribute) {
  const ParserState::Nested nested(in_);
  const int line = in_.line();
  if (in_.skip_op("(")) {
    Target inner = target(false, {});
    in_.expect_op(")");
    return inner;
  }
  Target result;
  result.line = line;
  const bool is_attribute =
      in_.following().kind == TokenKind::kOperator && in_.following().text == ".";
  if (allows_attribute && is_attribute) {
    result.name = in_.intern(in_.expect_name());
    in_.note_use(result.name, true);
    in_.expect_op(".");
    result.attribute = in_.expect_name();
    return result;
  }
  if (in_.for_depth > 0 && in_.is_word("loop")) {
    in_.fail("Can't assign to special loop variable in for-loop target");
  }
  result.name = stored_name();
  return result;
}

Target StatementParser::target(bool allows_attribute, std::string_view end_word) {
  Target first = target_item(allows_attribute);
  if (!in_.is_op(",")) return first;
  Target result;
  result.line = first.line;
  result.is_tuple = true;
  result.items.push_back(std::move(first));
  while (in_.skip_op(",")) {
    const bool is_end = in_.is_op(")") || in_.is_op("=") || in_.is(TokenKind::kBlockEnd) ||
                        (!end_word.empty() && in_.is_word(end_word));
    if (is_end) break;
    result.items.push_back(target_item(allows_attribute));
  }
  return result;
}

void StatementParser::signature(MacroBody& macro) {
  in_.expect_op("(");
  while (!in_.failed() && !in_.is_op(")")) {
    if (!macro.parameters.empty()) in_.expect_op(",");
    macro.parameter_names.push_back(in_.current().text);
    macro.parameters.push_back(stored_name());
    if (in_.skip_op("=")) {
      macro.defaults.push_back(expressions_.expression());
    } else if (!macro.defaults.empty()) {
      in_.fail("non-default argument follows default argument");
    }
  }
  in_.expect_op(")");
}

void StatementParser::macro_body(MacroBody& macro, std::string_view end) {
  const Restored hard(in_.is_soft, false);
  const Restored no_loop(in_.loop_depth, 0);
  if (end == "endmacro") signature(macro);
  const size_t first_use = in_.num_uses();
  macro.body = block_to(end);
  const auto special = [&](const std::string& name) -> std::optional<NameId> {
    const NameId id = in_.intern(name);
    const bool is_parameter =
        std::find(macro.parameters.begin(), macro.parameters.end(), id) != macro.parameters.end();
    if (is_parameter || !in_.is_loaded_since(first_use, id)) return std::nullopt;
    return id;
  };
  macro.caller = special("caller");
  macro.kwargs = special("kwargs");
  macro.varargs = special("varargs");
  const auto& names = macro.parameter_names;
  const auto caller = std::find(names.begin(), names.end(), "caller");
  macro.has_explicit_caller = caller != names.end();
  const size_t num_without_default = names.size() - macro.defaults.size();
  if (macro.has_explicit_caller &&
      static_cast<size_t>(caller - names.begin()) < num_without_default &&
      in_.is_loaded_since(first_use, in_.intern("caller"))) {
    in_.fail(
        "When defining macros or call blocks the special \"caller\" argument must be omitted or "
        "be given a default."
    );
  }
}

}  // namespace

Result<Program> parse_program(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes_max) {
    return invalid_argument(
        fmt::format(
            "a chat template of {} bytes; at most {} are allowed",
            source.size(),
            limits.template_bytes_max
        ),
        "chat template"
    );
  }
  if (!is_valid_utf8(source)) return template_error("the chat template is not valid UTF-8", 1);
  Result<std::vector<Token>> tokens = tokenize(source);
  if (!tokens) return tokens.error();
  ParserState state(std::move(*tokens), limits.recursion_max);
  Program program;
  program.body = StatementParser(state).body_until({});
  state.fail_if_unknown();
  if (state.failed()) return state.error();
  program.loop = state.intern("loop");
  program.reads = state.take_reads();
  program.names = state.take_names();
  return program;
}

}  // namespace millrace::jinja
