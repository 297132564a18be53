#include "text/jinja/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins/natives.h"

namespace millrace::jinja {
namespace {

constexpr int kValueDepthMax = 200;   // nesting of lists and dicts; JSON from outside has 100
constexpr size_t kObjectBytes = 160;  // a shared object with its control block, about

}  // namespace

Value* Scope::find(NameId name) {
  for (auto& [id, value] : variables) {
    if (id == name) return &value;
  }
  return nullptr;
}

void Scope::set(NameId name, Value value) {
  if (Value* found = find(name)) {
    *found = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

Run::Run(const Program& program, const Limits& limits, std::chrono::local_seconds now)
    : program_(program),
      limits_(limits),
      now_(now),
      budget_(limits.memory_bytes_max),
      context_(program.names.size()),
      scope_(std::make_shared<Scope>()) {
  for (size_t i = 0; i < program.names.size(); ++i) {
    if (const Native native = find_global(program.names[i])) {
      context_[i] = object(Function{program.names[i], native, Value()}, 0);
    }
  }
}

Run::~Run() {
  for (const std::shared_ptr<Object>& ns : namespaces_) ns->as<Namespace>()->attributes = Dict();
  for (const std::shared_ptr<Scope>& scope : captured_scopes_) scope->variables.clear();
}

void Run::define(std::string_view name, Value value) {
  const auto found = std::find(program_.names.begin(), program_.names.end(), name);
  if (found == program_.names.end()) return;
  context_[static_cast<size_t>(found - program_.names.begin())] = std::move(value);
}

Result<Text> Run::render() {
  TextBuilder out(limits_.output_bytes_max);
  out_ = &out;
  execute(program_.body);
  out_ = nullptr;
  if (failed()) return error();
  return out.take();
}

Value Run::fail(std::string message) {
  if (!failed())
    error_ = Error{
        ErrorCode::kInvalidArgument,
        std::move(message),
        fmt::format("chat template, line {}", line_),
    };
  return {};
}

Value Run::fail_unsupported(std::string message) {
  const bool is_first = !failed();
  fail(std::move(message));
  if (is_first) error_->code = ErrorCode::kUnsupported;
  return {};
}

Value Run::fail_limit(std::string message) {
  const bool is_first = !failed();
  fail(std::move(message));
  if (is_first) error_->code = ErrorCode::kResourceExhausted;
  return {};
}

bool Run::step(uint64_t num_steps) {
  if (failed()) return false;
  if (num_steps > limits_.steps_max - steps_) {
    fail_limit(fmt::format("the chat template takes more than {} steps", limits_.steps_max));
    return false;
  }
  steps_ += num_steps;
  return true;
}

bool Run::work(size_t num_bytes) {
  if (failed()) return false;
  if (num_bytes > limits_.work_bytes_max - work_bytes_) {
    fail_limit(fmt::format("the chat template copies more than {} bytes", limits_.work_bytes_max));
    return false;
  }
  work_bytes_ += num_bytes;
  return true;
}

Value Run::str(Text text) {
  if (!work(text.size())) return {};
  const size_t num_bytes = text.heap_bytes() + kObjectBytes;
  if (text.size() > limits_.string_bytes_max || !budget_.take(num_bytes)) {
    return fail_limit("a string of the chat template is too large");
  }
  return std::make_shared<const Str>(Str{std::move(text), Charge(budget_, num_bytes)});
}

Value Run::str(TextBuilder& builder) {
  if (builder.overflowed()) return fail_limit("a string of the chat template is too large");
  return str(builder.take());
}

bool Run::fits(int depth) {
  if (failed()) return false;
  if (depth > kValueDepthMax) fail_limit("the chat template nests values too deeply");
  return !failed();
}

Value Run::sequence(std::vector<Value> items, SequenceKind kind) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  if (!fits(depth) || !step(items.size() / 8)) return {};
  const size_t num_bytes = items.capacity() * sizeof(Value) + kObjectBytes;
  if (!budget_.take(num_bytes)) return fail_limit("the chat template uses too much memory");
  return std::make_shared<const Sequence>(Sequence{
      kind, std::move(items), 0, depth, Charge(budget_, num_bytes)});
}

Value Run::dict(Dict dict) {
  if (!fits(dict.depth) || !step(dict.entries.size() / 8)) return {};
  // The index of a large dict has a tree node for each entry.
  const size_t num_bytes = dict.entries.capacity() * (2 * sizeof(Value) + 80) + kObjectBytes;
  if (!budget_.take(num_bytes)) return fail_limit("the chat template uses too much memory");
  dict.charge = Charge(budget_, num_bytes);
  return std::make_shared<const Dict>(std::move(dict));
}

Value Run::undefined(std::string message) {
  return std::make_shared<const Undefined>(Undefined{std::move(message)});
}

Value Run::make_object(Object object) {
  if (!fits(object.depth)) return {};
  size_t num_bytes = kObjectBytes + sizeof(Object);
  if (const Loop* loop = object.as<Loop>()) num_bytes += loop->items.size() * sizeof(Value);
  if (!budget_.take(num_bytes)) return fail_limit("the chat template uses too much memory");
  object.charge = Charge(budget_, num_bytes);
  auto shared = std::make_shared<Object>(std::move(object));
  if (shared->as<Namespace>() != nullptr) namespaces_.push_back(shared);
  return shared;
}

void Run::capture_scope() {
  if (std::exchange(scope_->is_captured, true)) return;
  if (!budget_.take(kObjectBytes)) fail_limit("the chat template uses too much memory");
  captured_scopes_.push_back(scope_);
}

}  // namespace millrace::jinja
