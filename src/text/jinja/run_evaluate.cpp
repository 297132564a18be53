#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins/natives.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/run.h"
#include "text/jinja/run_frame.h"

namespace millrace::jinja {
namespace {

// Of Python's methods only these know their parameters by name.
bool takes_keywords(std::string_view method) {
  return method == "split" || method == "rsplit" || method == "splitlines" ||
         method == "expandtabs" || method == "format";
}

}  // namespace

Value Run::evaluate(const ExprPtr& expression) {
  const Deeper deeper(*this);
  if (!step()) return {};
  return std::visit(
      [this, &expression](const auto& kind) -> Value {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, Constant>) {
          return kind.value;
        } else if constexpr (std::is_same_v<Kind, Conditional>) {
          return evaluate(kind, expression->line);
        } else {
          return evaluate(kind);
        }
      },
      expression->kind
  );
}

Value Run::evaluate(const Name& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [id, value] : scope->variables) {
      if (id == name.id) return value;
    }
  }
  if (context_[name.id]) return *context_[name.id];
  return undefined(fmt::format("'{}' is undefined", program_.names[name.id]));
}

Value Run::evaluate(const SequenceDisplay& display) {
  std::vector<Value> items;
  for (const ExprPtr& item : display.items) items.push_back(evaluate(item));
  return sequence(std::move(items), display.is_tuple ? SequenceKind::kTuple : SequenceKind::kList);
}

Value Run::evaluate(const DictDisplay& display) {
  Dict result;
  for (const auto& [key, value] : display.entries) {
    Value name = evaluate(key);
    if (!is_hashable(name)) return fail(fmt::format("unhashable type: '{}'", type_name(name)));
    result.set(std::move(name), evaluate(value));
  }
  return dict(std::move(result));
}

Value Run::evaluate(const Unary& expression) {
  const Value operand = evaluate(expression.operand);
  return failed() ? Value() : unary(*this, expression.op, operand);
}

Value Run::evaluate(const BinaryChain& chain) {
  Value result = evaluate(chain.first);
  for (const auto& [op, operand] : chain.rest) {
    const Value right = evaluate(operand);
    if (failed()) return {};
    result = binary(*this, op, result, right);
  }
  return result;
}

Value Run::evaluate(const CompareChain& chain) {
  Value left = evaluate(chain.first);
  for (const auto& [op, operand] : chain.rest) {
    Value right = evaluate(operand);
    if (failed() || !compare(*this, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Run::evaluate(const BoolChain& chain) {
  Value result;
  for (const ExprPtr& operand : chain.operands) {
    result = evaluate(operand);
    if (failed() || truth(*this, result) != chain.is_and) break;
  }
  return result;
}

Value Run::evaluate(const Concatenation& concatenation) {
  TextBuilder out = builder();
  for (const ExprPtr& operand : concatenation.operands) {
    const Value value = evaluate(operand);
    if (!failed()) append_str(*this, value, out);
  }
  return failed() ? Value() : str(out);
}

Value Run::evaluate(const Conditional& conditional, int line) {
  const Value condition = evaluate(conditional.condition);
  if (failed()) return {};
  if (truth(*this, condition)) return evaluate(conditional.then);
  if (conditional.otherwise != nullptr) return evaluate(conditional.otherwise);
  return undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.",
      line
  ));
}

Value Run::evaluate(const Postfix& postfix) {
  Value value = evaluate(postfix.base);
  for (const Suffix& suffix : postfix.suffixes) {
    if (failed()) return {};
    value = apply(suffix, value);
  }
  return value;
}

Value Run::apply_filters(const std::vector<Suffix>& filters, Value subject) {
  for (const Suffix& filter : filters) {
    if (failed()) return {};
    subject = apply(filter, subject);
  }
  return subject;
}

Value Run::apply(const Suffix& suffix, const Value& subject) {
  if (!step()) return {};
  line_ = suffix.line;
  if (const auto* attribute = std::get_if<GetAttribute>(&suffix.kind)) {
    return get_attribute(*this, subject, attribute->name);
  }
  if (const auto* item = std::get_if<GetItem>(&suffix.kind)) {
    const Value key = evaluate(item->key);
    return failed() ? Value() : get_item(*this, subject, key);
  }
  if (const auto* slice = std::get_if<GetSlice>(&suffix.kind)) {
    const auto part = [this](const ExprPtr& expression) {
      return expression == nullptr ? Value(None{}) : evaluate(expression);
    };
    const Value start = part(slice->start);
    const Value stop = part(slice->stop);
    const Value step = part(slice->step);
    return failed() ? Value() : get_slice(*this, subject, start, stop, step);
  }
  if (const auto* invoked = std::get_if<Call>(&suffix.kind)) {
    return call(subject, evaluate(invoked->arguments));
  }
  if (const auto* filter = std::get_if<ApplyFilter>(&suffix.kind)) {
    if (filter->native == nullptr)
      return fail(fmt::format("No filter named '{}' found.", filter->name));
    return call_native(filter->native, subject, filter->arguments);
  }
  const auto& test = std::get<ApplyTest>(suffix.kind);
  if (test.native == nullptr) return fail(fmt::format("No test named '{}' found.", test.name));
  const Value result = call_native(test.native, subject, test.arguments);
  if (failed() || !test.is_negated) return result;
  return !truth(*this, result);
}

Value Run::call_native(Native native, const Value& self, const CallArguments& arguments) {
  const Arguments evaluated = evaluate(arguments);
  return failed() ? Value() : native(*this, self, evaluated);
}

Arguments Run::evaluate(const CallArguments& arguments) {
  Arguments result;
  for (const ExprPtr& argument : arguments.positional) {
    result.positional.push_back(evaluate(argument));
  }
  for (const auto& [name, argument] : arguments.keywords) {
    result.keywords.emplace_back(name, evaluate(argument));
  }
  evaluate_stars(arguments, result);
  return result;
}

void Run::evaluate_stars(const CallArguments& arguments, Arguments& out) {
  if (arguments.star != nullptr) {
    const Value star = evaluate(arguments.star);
    for (Value& item : iterate(*this, star)) out.positional.push_back(std::move(item));
  }
  if (arguments.star_star == nullptr || failed()) return;
  const Value keywords = evaluate(arguments.star_star);
  if (failed()) return;
  if (keywords.dict() == nullptr) {
    fail(fmt::format("argument after ** must be a mapping, not {}", type_name(keywords)));
    return;
  }
  for (const auto& [key, value] : keywords.dict()->entries) {
    if (!step()) return;
    if (key.text() == nullptr) {
      fail("keywords must be strings");
      return;
    }
    std::string name(key.text()->view());
    for (const auto& [other, ignored] : arguments.keywords) {
      if (other == name) fail(fmt::format("got multiple values for keyword argument '{}'", name));
    }
    out.keywords.emplace_back(std::move(name), value);
  }
}

Value Run::call(const Value& callee, const Arguments& arguments) {
  if (!step()) return {};
  if (callee.is_undefined()) {
    return fail(callee.undefined() == nullptr ? "undefined" : callee.undefined()->message);
  }
  Object* object = callee.object();
  if (object != nullptr) {
    if (auto* function = object->as<Function>()) {
      if (!function->self.is_undefined() && !arguments.keywords.empty() &&
          !takes_keywords(function->name)) {
        return fail(fmt::format(
            "{}.{}() takes no keyword arguments", type_name(function->self), function->name
        ));
      }
      return function->native(*this, function->self, arguments);
    }
    if (auto* macro = object->as<Macro>()) return call_macro(*macro, arguments);
    if (object->as<Loop>() != nullptr) return call_loop(*object, arguments);
    if (auto* joiner = object->as<Joiner>()) {
      return std::exchange(joiner->was_used, true) ? joiner->separator : str("");
    }
  }
  return fail(fmt::format("'{}' object is not callable", type_name(callee)));
}

// The first call is the loop's own, without arguments; the others come from its body.
Value Run::call_loop(Object& object, const Arguments& arguments) {
  Loop& loop = *object.as<Loop>();
  if (!loop.statement->is_recursive) {
    return fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  Loop inner;
  inner.statement = loop.statement;
  inner.scope = loop.scope;
  inner.is_filtered = loop.statement->condition != nullptr;
  if (arguments.positional.size() == 1 && arguments.keywords.empty()) {
    inner.items = iterate(*this, arguments.positional[0]);
    inner.depth0 = loop.depth0 + 1;
  } else if (arguments.positional.empty() && arguments.keywords.empty() && loop.index0 < 0) {
    inner.items = loop.items;
  } else {
    fail("a recursive loop takes exactly one argument");
  }
  if (++macro_depth_ > limits_.recursion_max) {
    fail_limit("the chat template's loop calls itself too deeply");
  }
  int depth = 1;
  for (const Value& item : inner.items) depth = std::max(depth, item.depth() + 1);
  const auto shared = std::make_shared<Object>(Object{std::move(inner), depth, {}});
  Value text = captured([&] {
    if (!failed()) run_loop(shared);
  });
  --macro_depth_;
  return text;
}

Value Run::call_macro(const Macro& macro, const Arguments& arguments) {
  if (macro_depth_ >= limits_.recursion_max) {
    return fail_limit("the chat template's macros call each other too deeply");
  }
  ++macro_depth_;
  const Frame frame(*this, macro.scope);
  bind_arguments(*macro.body, arguments);
  bind_specials(*macro.body, arguments);
  Value text = captured([&] {
    if (!failed()) execute(macro.body->body);
  });
  --macro_depth_;
  return text;
}

void Run::bind_arguments(const MacroBody& macro, const Arguments& arguments) {
  const size_t num_parameters = macro.parameters.size();
  std::vector<std::optional<Value>> given(num_parameters);
  for (size_t i = 0; i < num_parameters && i < arguments.positional.size(); ++i) {
    given[i] = arguments.positional[i];
  }
  for (size_t i = arguments.positional.size(); i < num_parameters; ++i) {
    for (const auto& [name, value] : arguments.keywords) {
      if (name == macro.parameter_names[i]) given[i] = value;
    }
  }
  const size_t first_default = num_parameters - macro.defaults.size();
  for (size_t i = 0; i < num_parameters && !failed(); ++i) {
    const std::string& name = macro.parameter_names[i];
    if (given[i]) {
      scope_->set(macro.parameters[i], std::move(*given[i]));
    } else if (i >= first_default) {
      scope_->set(macro.parameters[i], evaluate(macro.defaults[i - first_default]));
    } else {
      scope_->set(
          macro.parameters[i], undefined(fmt::format("parameter '{}' was not provided", name))
      );
    }
  }
}

// caller, kwargs and varargs, and the refusal of what nobody takes.
void Run::bind_specials(const MacroBody& macro, const Arguments& arguments) {
  const size_t num_parameters = macro.parameters.size();
  Dict rest;
  for (const auto& [name, value] : arguments.keywords) {
    const auto& names = macro.parameter_names;
    const auto place = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<size_t>(place - names.begin());
    if (place != names.end() && index >= arguments.positional.size()) continue;
    if (name == "caller" && macro.caller) {
      scope_->set(*macro.caller, value);
      continue;
    }
    if (!macro.kwargs) {
      fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
      return;
    }
    rest.set(str(name), value);
  }
  if (macro.caller && scope_->find(*macro.caller) == nullptr) {
    scope_->set(*macro.caller, undefined("No caller defined"));
  }
  if (macro.kwargs) scope_->set(*macro.kwargs, dict(std::move(rest)));
  const size_t num_positional = arguments.positional.size();
  if (macro.varargs) {
    const size_t num_taken = std::min(num_parameters, num_positional);
    const auto first = arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_taken);
    scope_->set(
        *macro.varargs, sequence({first, arguments.positional.end()}, SequenceKind::kTuple)
    );
  } else if (num_positional > num_parameters) {
    fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, num_parameters));
  }
}

}  // namespace millrace::jinja
