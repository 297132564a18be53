// One rendering of a template: its fuel, its first error, its variables and its output.
//
// The first error sticks. From then on nothing is evaluated and every value is undefined, so that
// code between the error and the end needs no checks of its own; what it computed is thrown away.
// Used by one thread, once.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/limits.h"
#include "text/jinja/object.h"
#include "text/jinja/value.h"

namespace millrace::jinja {

// The variables of one frame: the template, an iteration, a macro's call.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Value>> variables;
  bool is_captured = false;  // by a macro or a recursive loop, which outlive the frame

  Value* find(NameId name);
  void set(NameId name, Value value);
};

class Run {
 public:
  Run(const Program& program, const Limits& limits, std::chrono::local_seconds now);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  // A variable of the template. To be called before render().
  void define(std::string_view name, Value value);
  Result<Text> render();

  // --- errors; each returns an undefined value, for `return run.fail(...)`
  Value fail(std::string message);
  Value fail_unsupported(std::string message);
  Value fail_limit(std::string message);
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }

  // --- fuel; false once there is none, or an error
  bool step(uint64_t num_steps = 1);
  bool work(size_t num_bytes);
  const Limits& limits() const { return limits_; }

  // --- making values
  TextBuilder builder() const { return TextBuilder(limits_.string_bytes_max); }
  Value str(Text text);
  Value str(TextBuilder& builder);
  Value str(std::string_view text) { return str(Text(std::string(text))); }
  Value sequence(std::vector<Value> items, SequenceKind kind = SequenceKind::kList);
  Value dict(Dict dict);
  Value undefined(std::string message);
  template <class Kind>
  Value object(Kind kind, int depth) {
    return make_object({std::move(kind), depth, {}});
  }

  // --- what natives need of the interpreter
  Value call(const Value& callee, const Arguments& arguments);
  std::chrono::local_seconds now() const { return now_; }

  // The next item that the loop will visit, without visiting it.
  const Value* peek(Loop& loop);
  int64_t length(Loop& loop);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Deeper;
  class Frame;

  Value make_object(Object object);
  bool fits(int depth);
  void capture_scope();

  // statements
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute(const If& statement);
  Flow execute(const For& statement);
  Flow run_loop(const std::shared_ptr<Object>& loop);
  Flow iterate_loop(const std::shared_ptr<Object>& object, Loop& loop);
  Flow execute(const SetBlock& statement);
  Flow execute(const DefineMacro& statement);
  Flow execute(const CallBlock& statement);
  Flow execute(const FilterBlock& statement);
  Flow execute(const With& statement);
  std::optional<Value> pull(Loop& loop);
  void assign(const Target& target, Value value);
  void assign_attribute(const Target& target, Value value);
  void emit(const Text& text);
  void print(const Value& value);

  // Runs `body` in a new frame and returns what it wrote.
  template <class Execute>
  Value captured(Execute execute_body);

  // expressions
  Value evaluate(const ExprPtr& expression);
  Value evaluate(const Name& name);
  Value evaluate(const SequenceDisplay& display);
  Value evaluate(const DictDisplay& display);
  Value evaluate(const Unary& unary);
  Value evaluate(const BinaryChain& chain);
  Value evaluate(const CompareChain& chain);
  Value evaluate(const BoolChain& chain);
  Value evaluate(const Concatenation& concatenation);
  Value evaluate(const Conditional& conditional, int line);
  Value evaluate(const Postfix& postfix);
  Value apply(const Suffix& suffix, const Value& subject);
  Value apply_filters(const std::vector<Suffix>& filters, Value subject);
  Value call_native(Native native, const Value& self, const CallArguments& arguments);
  Arguments evaluate(const CallArguments& arguments);
  void evaluate_stars(const CallArguments& arguments, Arguments& out);

  Value call_macro(const Macro& macro, const Arguments& arguments);
  void bind_arguments(const MacroBody& macro, const Arguments& arguments);
  void bind_specials(const MacroBody& macro, const Arguments& arguments);
  Value call_loop(Object& loop, const Arguments& arguments);

  const Program& program_;
  const Limits& limits_;
  const std::chrono::local_seconds now_;
  Budget budget_;  // before everything that holds values

  std::optional<Error> error_;
  int line_ = 1;
  uint64_t steps_ = 0;
  size_t work_bytes_ = 0;
  int depth_ = 0;        // of evaluation
  int macro_depth_ = 0;  // of macros inside of macros

  std::vector<std::optional<Value>> context_;  // [program_.names.size()]
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  size_t open_bytes_ = 0;  // written to the output and to the captures that are open

  // What may be part of a cycle; emptied at the end.
  std::vector<std::shared_ptr<Object>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_scopes_;
};

}  // namespace millrace::jinja
