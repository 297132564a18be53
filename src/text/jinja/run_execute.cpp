#include <fmt/format.h>

#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/run.h"
#include "text/jinja/run_frame.h"

namespace millrace::jinja {

void Run::emit(const Text& text) {
  if (!work(text.size())) return;
  if (text.size() > limits_.output_bytes_max - open_bytes_) {
    fail_limit(fmt::format("the chat template writes more than {} bytes", limits_.output_bytes_max)
    );
    return;
  }
  open_bytes_ += text.size();
  out_->append(text);
}

void Run::print(const Value& value) {
  if (failed()) return;
  if (const Text* text = value.text()) {
    emit(*text);
  } else {
    emit(to_text(*this, value));
  }
}

Run::Flow Run::execute(const Body& body) {
  const Deeper deeper(*this);
  for (const Statement& statement : body) {
    if (!step()) return Flow::kBreak;
    line_ = statement.line;
    const Flow flow = execute(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Run::Flow Run::execute(const Statement& statement) {
  return std::visit(
      [this](const auto& kind) {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, Data>) {
          emit(kind.text);
          return Flow::kNext;
        } else if constexpr (std::is_same_v<Kind, Print>) {
          print(evaluate(kind.value));
          return Flow::kNext;
        } else if constexpr (std::is_same_v<Kind, Set>) {
          assign(kind.target, evaluate(kind.value));
          return Flow::kNext;
        } else if constexpr (std::is_same_v<Kind, Break>) {
          return Flow::kBreak;
        } else if constexpr (std::is_same_v<Kind, Continue>) {
          return Flow::kContinue;
        } else if constexpr (std::is_same_v<Kind, Scoped>) {
          const Frame frame(*this);
          return execute(kind.body);
        } else {
          return execute(kind);
        }
      },
      statement.kind
  );
}

Run::Flow Run::execute(const If& statement) {
  for (const auto& [condition, body] : statement.branches) {
    const Value value = evaluate(condition);
    if (failed()) return Flow::kBreak;
    if (truth(*this, value)) return execute(body);
  }
  return execute(statement.otherwise);
}

Run::Flow Run::execute(const For& statement) {
  Loop loop;
  loop.statement = &statement;
  loop.scope = scope_;
  loop.is_filtered = statement.condition != nullptr;
  loop.items = iterate(*this, evaluate(statement.iterable));
  int depth = 1;
  for (const Value& item : loop.items) depth = std::max(depth, item.depth() + 1);
  const Value value = object(std::move(loop), depth);
  if (failed()) return Flow::kBreak;
  if (statement.is_recursive) {
    capture_scope();
    const Value text = call(value, {});
    print(text);
    return Flow::kNext;
  }
  return run_loop(value.shared_object());
}

Run::Flow Run::run_loop(const std::shared_ptr<Object>& object) {
  Loop& loop = *object->as<Loop>();
  const Flow flow = iterate_loop(object, loop);
  // A namespace may keep the loop, and must not keep the frames around it.
  loop.scope.reset();
  loop.is_filtered = false;
  return flow;
}

Run::Flow Run::iterate_loop(const std::shared_ptr<Object>& object, Loop& loop) {
  const For& statement = *loop.statement;
  bool has_completed = false;  // an iteration came to its end: what Jinja's `else` asks about
  while (std::optional<Value> item = pull(loop)) {
    if (!step()) return Flow::kBreak;
    loop.index0 += 1;
    loop.previous = std::exchange(loop.current, *item);
    const Frame frame(*this, loop.scope);
    scope_->set(program_.loop, object);
    assign(statement.target, std::move(*item));
    const Flow flow = execute(statement.body);
    if (failed() || flow == Flow::kBreak) break;
    has_completed = has_completed || flow == Flow::kNext;
  }
  if (failed()) return Flow::kBreak;
  if (has_completed || statement.otherwise.empty()) return Flow::kNext;
  const Frame frame(*this, loop.scope);
  return execute(statement.otherwise);
}

std::optional<Value> Run::pull(Loop& loop) {
  if (!loop.pending.empty()) {
    Value item = std::move(loop.pending.back());
    loop.pending.pop_back();
    return item;
  }
  while (!failed() && loop.next < loop.items.size()) {
    Value item = loop.items[loop.next++];
    if (!loop.is_filtered) return item;
    const Frame frame(*this, loop.scope);
    assign(loop.statement->target, item);
    const Value accepted = evaluate(loop.statement->condition);
    if (!failed() && truth(*this, accepted)) return item;
  }
  return std::nullopt;
}

const Value* Run::peek(Loop& loop) {
  if (loop.pending.empty()) {
    std::optional<Value> item = pull(loop);
    if (!item) return nullptr;
    loop.pending.push_back(std::move(*item));
  }
  return &loop.pending.back();
}

int64_t Run::length(Loop& loop) {
  if (loop.is_filtered) {
    std::vector<Value> accepted = std::move(loop.pending);
    loop.pending.clear();
    while (std::optional<Value> item = pull(loop)) accepted.push_back(std::move(*item));
    // Places for the items that were already visited, so that the count below stays right.
    const auto num_visited = static_cast<size_t>(loop.index0 + 1);
    accepted.insert(accepted.begin(), num_visited, Value());
    loop.items = std::move(accepted);
    loop.next = num_visited;
    loop.is_filtered = false;
  }
  return static_cast<int64_t>(loop.items.size());
}

void Run::assign(const Target& target, Value value) {
  if (failed()) return;
  if (target.attribute) return assign_attribute(target, std::move(value));
  if (!target.is_tuple) return scope_->set(target.name, std::move(value));
  if (!is_iterable(value)) {
    fail(fmt::format("cannot unpack non-iterable {} object", type_name(value)));
    return;
  }
  std::vector<Value> items = iterate(*this, value);
  if (failed()) return;
  const size_t num_expected = target.items.size();
  if (items.size() > num_expected) {
    fail(fmt::format("too many values to unpack (expected {})", num_expected));
  } else if (items.size() < num_expected) {
    fail(
        fmt::format("not enough values to unpack (expected {}, got {})", num_expected, items.size())
    );
  }
  for (size_t i = 0; i < num_expected && !failed(); ++i) {
    assign(target.items[i], std::move(items[i]));
  }
}

void Run::assign_attribute(const Target& target, Value value) {
  const Value owner = evaluate(Name{target.name});
  Namespace* ns = owner.object() == nullptr ? nullptr : owner.object()->as<Namespace>();
  if (ns == nullptr) {
    fail("cannot assign attribute on non-namespace object");
    return;
  }
  if (target.attribute->front() == '_') {
    fail(fmt::format(
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
        "'{}'. Please rename the attribute.",
        *target.attribute
    ));
    return;
  }
  Value name = str(*target.attribute);
  if (!failed()) ns->attributes.set(std::move(name), std::move(value));
}

Run::Flow Run::execute(const SetBlock& statement) {
  Flow flow = Flow::kNext;
  Value text;
  {
    const Frame frame(*this);
    text = captured([&] { flow = execute(statement.body); });
    if (flow == Flow::kNext) text = apply_filters(statement.filters, std::move(text));
  }
  if (flow == Flow::kNext) assign(statement.target, std::move(text));
  return flow;
}

Run::Flow Run::execute(const FilterBlock& statement) {
  Flow flow = Flow::kNext;
  const Frame frame(*this);
  Value text = captured([&] { flow = execute(statement.body); });
  if (flow != Flow::kNext) return flow;
  print(apply_filters(statement.filters, std::move(text)));
  return Flow::kNext;
}

Run::Flow Run::execute(const With& statement) {
  std::vector<Value> values;
  for (const auto& [target, value] : statement.bindings) values.push_back(evaluate(value));
  const Frame frame(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    assign(statement.bindings[i].first, std::move(values[i]));
  }
  return execute(statement.body);
}

Run::Flow Run::execute(const DefineMacro& statement) {
  capture_scope();
  scope_->set(statement.name, object(Macro{statement.macro.get(), scope_}, 0));
  return Flow::kNext;
}

Run::Flow Run::execute(const CallBlock& statement) {
  capture_scope();
  const Value caller = object(Macro{statement.caller.get(), scope_}, 0);
  const auto& postfix = std::get<Postfix>(statement.call->kind);
  Value callee = evaluate(postfix.base);
  for (size_t i = 0; i + 1 < postfix.suffixes.size(); ++i) {
    callee = apply(postfix.suffixes[i], callee);
  }
  Arguments arguments = evaluate(std::get<Call>(postfix.suffixes.back().kind).arguments);
  for (const auto& [name, value] : arguments.keywords) {
    if (name == "caller") fail("the call block's macro got two values for 'caller'");
  }
  arguments.keywords.emplace_back("caller", caller);
  print(call(callee, arguments));
  return Flow::kNext;
}

}  // namespace millrace::jinja
