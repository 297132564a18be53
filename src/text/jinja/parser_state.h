// The parser's tokens, position and first error; shared by its two halves, expressions and
// statements.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace millrace::jinja {

// The first error sticks and moves to the end of the tokens, so that everything above runs out of
// input and returns; what they return is thrown away.
class ParserState {
 public:
  ParserState(std::vector<Token> tokens, int recursion_max)
      : tokens_(std::move(tokens)), recursion_max_(recursion_max) {}

  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  void fail(std::string message) { fail(std::move(message), current().line); }
  void fail(std::string message, int line) {
    if (!failed()) error_ = template_error(std::move(message), line);
    at_ = tokens_.size() - 1;
  }

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  void next() { at_ = std::min(at_ + 1, tokens_.size() - 1); }

  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::kOperator) && current().text == op; }
  bool is_word(std::string_view word) const {
    return is(TokenKind::kName) && current().text == word;
  }
  bool is_any_word(std::initializer_list<std::string_view> words) const {
    return is(TokenKind::kName) &&
           std::find(words.begin(), words.end(), current().text) != words.end();
  }
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_word(std::string_view word) { return is_word(word) && (next(), true); }
  void expect_op(std::string_view op);
  void expect_word(std::string_view word);
  void expect(TokenKind kind);
  std::string expect_name();
  // What an error calls the current token.
  std::string describe() const;

  NameId intern(const std::string& name);
  std::vector<std::string> take_names() { return std::move(names_); }

  // Which names were used, in the order of the source: macros ask whether theirs are free.
  void note_use(NameId name, bool is_load) { uses_.emplace_back(name, is_load); }
  size_t num_uses() const { return uses_.size(); }
  bool is_loaded_since(size_t first_use, NameId name) const;
  void note_member(std::string_view name) { members_.emplace(name); }
  // What the source reads; called once, before take_names().
  Reads take_reads();

  // A filter or test that does not exist is an error of the whole template, unless an `if` may
  // keep it from being reached.
  void note_unknown(std::string message, int line) {
    if (!is_soft) unknown_.push_back(template_error(std::move(message), line));
  }
  size_t num_unknown() const { return unknown_.size(); }
  void forget_unknown_since(size_t count) {
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(count), unknown_.end());
  }
  void fail_if_unknown() {
    if (!failed() && !unknown_.empty()) error_ = unknown_.front();
  }

  // Nesting, for as long as one of these lives. Fails beyond the limit.
  class Nested {
   public:
    explicit Nested(ParserState& state) : state_(state) {
      if (++state_.depth_ > state_.recursion_max_) state_.fail("the template is nested too deeply");
    }
    ~Nested() { --state_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ParserState& state_;
  };

  int recursion_max() const { return recursion_max_; }

  bool is_soft = false;  // directly inside of an `if`
  int for_depth = 0;     // `loop` cannot be assigned to
  int loop_depth = 0;    // `break` is possible

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int recursion_max_;
  int depth_ = 0;
  std::optional<Error> error_;
  std::vector<std::string> names_;
  std::map<std::string, NameId> name_ids_;
  std::vector<std::pair<NameId, bool>> uses_;
  std::set<std::string, std::less<>> members_;
  std::vector<Error> unknown_;
};

// The grammar of expressions.
class ExpressionParser {
 public:
  explicit ExpressionParser(ParserState& state) : in_(state) {}

  ExprPtr expression();
  ExprPtr expression_without_if() { return disjunction(); }
  // `a, b` is a tuple; `a` alone is not. Ends before `end_word` too, when there is one.
  ExprPtr tuple(bool allows_if, std::string_view end_word = {});
  std::vector<Suffix> filters(bool starts_inside);
  bool is_constant_name(const std::string& name) const;

 private:
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr number();
  ExprPtr string();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr parenthesized();

  ExprPtr with_suffixes(ExprPtr base, std::vector<Suffix> suffixes, int line);
  void postfixes(std::vector<Suffix>& out);
  void filters_and_tests(std::vector<Suffix>& out);
  Suffix attribute();
  Suffix subscript();
  std::string dotted_name();
  Suffix filter();
  Suffix test();
  std::optional<CallArguments> test_arguments();
  CallArguments call_arguments();
  void call_argument(CallArguments& out);

  ParserState& in_;
};

}  // namespace millrace::jinja
