// The methods of lists, tuples, ranges, dicts, loops and cyclers.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/operators.h"

namespace millrace::jinja {
namespace {

Value index_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "index", {"value", "start", "stop"}, 1);
  const std::vector<Value> items = iterate(run, self);
  const auto size = static_cast<int64_t>(items.size());
  const auto place = [&](size_t argument, int64_t otherwise) {
    const int64_t at = bound.integer(argument, otherwise);
    return std::clamp<int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
  };
  const int64_t stop = place(2, size);
  for (int64_t i = place(1, 0); i < stop && !run.failed(); ++i) {
    const Value& item = items[static_cast<size_t>(i)];
    if (item.is_same(*bound.at(0)) || equals(run, item, *bound.at(0))) return i;
  }
  return run.fail("the value is not in the list");
}

Value count_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "count", {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : iterate(run, self)) {
    if (run.failed()) return {};
    if (item.is_same(*bound.at(0)) || equals(run, item, *bound.at(0))) ++count;
  }
  return count;
}

Value copy_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "copy", {});
  if (self.dict() != nullptr || run.failed()) return self;  // nothing can tell it from a copy
  if (is_list(self)) return run.sequence(iterate(run, self));
  return run.fail(fmt::format("'{} object' has no attribute 'copy'", type_name(self)));
}

Value get_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "get", {"key", "default"}, 1);
  if (run.failed()) return {};
  if (!is_hashable(*bound.at(0))) {
    return run.fail(fmt::format("unhashable type: '{}'", type_name(*bound.at(0))));
  }
  const Value* found = self.dict()->find(*bound.at(0));
  return found != nullptr ? *found : bound.value(1, None{});
}

template <SequenceKind kind>
Value view_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "dict method", {});
  if (!run.step(self.dict()->entries.size())) return {};
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (kind == SequenceKind::kDictKeys) items.push_back(key);
    if (kind == SequenceKind::kDictValues) items.push_back(value);
    if (kind == SequenceKind::kDictItems) {
      items.push_back(run.sequence({key, value}, SequenceKind::kTuple));
    }
  }
  return run.failed() ? Value() : run.sequence(std::move(items), kind);
}

Value loop_cycle(Run& run, const Value& self, const Arguments& arguments) {
  const Loop& loop = *self.object()->as<Loop>();
  const auto& choices = arguments.positional;
  if (choices.empty()) return run.fail("no items for cycling given");
  return choices[static_cast<size_t>(loop.index0) % choices.size()];
}

Value loop_changed(Run& run, const Value& self, const Arguments& arguments) {
  Loop& loop = *self.object()->as<Loop>();
  const auto& now = arguments.positional;
  bool is_same = loop.last_changed && loop.last_changed->size() == now.size();
  for (size_t i = 0; is_same && i < now.size(); ++i) {
    is_same = equals(run, (*loop.last_changed)[i], now[i]);
  }
  if (is_same) return false;
  // The loop keeps these, so they count as nested in it.
  for (const Value& value : now) {
    if (value.depth() >= 100 || value.object() != nullptr) {
      return run.fail_unsupported("loop.changed() compares plain values only");
    }
  }
  loop.last_changed = now;
  return true;
}

Value cycler_next(Run&, const Value& self, const Arguments&) {
  Cycler& cycler = *self.object()->as<Cycler>();
  const Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

Value cycler_reset(Run&, const Value& self, const Arguments&) {
  self.object()->as<Cycler>()->position = 0;
  return None{};
}

}  // namespace

Native find_sequence_method(std::string_view name) {
  if (name == "index") return index_method;
  if (name == "count") return count_method;
  return name == "copy" ? copy_method : nullptr;
}

Native find_dict_method(std::string_view name) {
  if (name == "get") return get_method;
  if (name == "items") return view_method<SequenceKind::kDictItems>;
  if (name == "keys") return view_method<SequenceKind::kDictKeys>;
  if (name == "values") return view_method<SequenceKind::kDictValues>;
  return name == "copy" ? copy_method : nullptr;
}

Native find_object_method(Object& object, std::string_view name) {
  if (object.as<Loop>() != nullptr) {
    if (name == "cycle") return loop_cycle;
    if (name == "changed") return loop_changed;
  }
  if (object.as<Cycler>() != nullptr) {
    if (name == "next") return cycler_next;
    if (name == "reset") return cycler_reset;
  }
  return nullptr;
}

}  // namespace millrace::jinja
