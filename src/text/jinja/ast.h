// A parsed template: statements that hold expressions. Immutable after parsing and shared between
// threads that render it.
//
// Whatever a source can repeat without nesting (operators of one rank, attributes, filters, elif)
// is a vector here and not a deep tree, so the depth of recursion is the nesting of the source.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/object.h"
#include "text/jinja/value.h"

namespace millrace::jinja {

// An index into Program::names.
using NameId = uint32_t;

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star;       // f(*star), or null
  ExprPtr star_star;  // f(**star_star), or null
};

struct GetAttribute {
  std::string name;
};
struct GetItem {
  ExprPtr key;
};
struct GetSlice {
  ExprPtr start, stop, step;  // each may be null
};
struct Call {
  CallArguments arguments;
};
struct ApplyFilter {
  std::string name;
  Native native = nullptr;  // null: unknown, an error once it is reached
  CallArguments arguments;
};
struct ApplyTest {
  std::string name;
  Native native = nullptr;
  CallArguments arguments;
  bool is_negated = false;
};

// What may follow a value: `.name`, `[key]`, `(...)`, `| filter`, `is test`.
struct Suffix {
  int line = 0;
  std::variant<GetAttribute, GetItem, GetSlice, Call, ApplyFilter, ApplyTest> kind;
};

struct Constant {
  Value value;
};
struct Name {
  NameId id = 0;
};
struct SequenceDisplay {
  bool is_tuple = false;
  std::vector<ExprPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op;
  ExprPtr operand;
};
enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct BinaryChain {
  ExprPtr first;
  std::vector<std::pair<BinaryOperator, ExprPtr>> rest;  // applied from left to right
};
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
struct CompareChain {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;  // a < b < c means a < b and b < c
};
struct BoolChain {
  bool is_and = false;
  std::vector<ExprPtr> operands;
};
struct Concatenation {
  std::vector<ExprPtr> operands;
};
struct Conditional {
  ExprPtr condition, then, otherwise;  // `otherwise` may be null: undefined
};
struct Postfix {
  ExprPtr base;
  std::vector<Suffix> suffixes;
};

struct Expr {
  int line = 0;
  std::variant<
      Constant,
      Name,
      SequenceDisplay,
      DictDisplay,
      Unary,
      BinaryChain,
      CompareChain,
      BoolChain,
      Concatenation,
      Conditional,
      Postfix>
      kind;
};

// What an assignment writes to: a name, an attribute of a namespace, or several of these.
struct Target {
  int line = 0;
  NameId name = 0;
  std::optional<std::string> attribute;
  std::vector<Target> items;
  bool is_tuple = false;
};

struct Statement;
using Body = std::vector<Statement>;

struct Data {
  Text text;
};
struct Print {
  ExprPtr value;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // may be null
  bool is_recursive = false;
  Body body;
  Body otherwise;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  std::vector<Suffix> filters;
  Body body;
};
struct MacroBody {
  std::string name;  // empty for the body of a call block
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;                  // of the last parameters
  std::optional<NameId> caller, kwargs, varargs;  // those that the body uses
  bool has_explicit_caller = false;
  Body body;
};
struct DefineMacro {
  NameId name = 0;
  std::unique_ptr<const MacroBody> macro;
};
struct CallBlock {
  std::unique_ptr<const MacroBody> caller;
  ExprPtr call;  // a Postfix that ends in a Call
};
struct FilterBlock {
  std::vector<Suffix> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};
struct Scoped {
  Body body;  // of {% generation %}
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<
      Data,
      Print,
      For,
      If,
      Set,
      SetBlock,
      DefineMacro,
      CallBlock,
      FilterBlock,
      With,
      Scoped,
      Break,
      Continue>
      kind;
};

// What a template may look at, whichever way it goes.
struct Reads {
  std::set<std::string, std::less<>> names;    // as a value: `name`
  std::set<std::string, std::less<>> members;  // `.name`, and every string, which may be a key
};

struct Program {
  std::vector<std::string> names;
  Reads reads;
  Body body;
  NameId loop = 0;  // the name `loop`
};

}  // namespace millrace::jinja
