// The objects of a template that are not data: namespaces, functions, macros, loops.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace millrace::jinja {

class Run;
struct For;
struct MacroBody;
struct Scope;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

// Everything written in C++ that a template can call has this form: filters and tests with the
// value on their left as `self`, methods with their object, functions with undefined.
using Native = Value (*)(Run& run, const Value& self, const Arguments& arguments);

// Attributes are set from anywhere, so a namespace may contain itself; its Run empties it.
struct Namespace {
  Dict attributes;
};

struct Function {
  std::string name;
  Native native = nullptr;
  Value self;
};

struct Macro {
  const MacroBody* body = nullptr;
  std::shared_ptr<Scope> scope;  // where it was defined
};

// The `loop` variable. `items` is all that is known; with a condition, what it has not refused yet.
struct Loop {
  const For* statement = nullptr;
  std::vector<Value> items;
  size_t next = 0;               // the first item that is not yet looked at
  std::vector<Value> pending;    // looked at, accepted, not yet visited: at most one
  std::shared_ptr<Scope> scope;  // around the loop
  bool is_filtered = false;      // a condition has still to be asked about `items`
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Value current;
  Value previous;
  std::optional<std::vector<Value>> last_changed;
};

struct Joiner {
  Value separator;
  bool was_used = false;
};

struct Cycler {
  std::vector<Value> items;
  size_t position = 0;
};

struct Object {
  std::variant<Namespace, Function, Macro, Loop, Joiner, Cycler> kind;
  int depth = 0;
  Charge charge;

  template <class T>
  T* as() {
    return std::get_if<T>(&kind);
  }
};

}  // namespace millrace::jinja
