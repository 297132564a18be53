// Attributes, items and slices, with the sandbox's rules: names that start with an underscore and
// methods that change a list or dict are there, yet using them is an error.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/builtins/natives.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Attributes with two underscores that every Python object has.
bool is_object_internal(std::string_view name) {
  return is_one_of(
      name, {"__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
             "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
             "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
             "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
             "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"}
  );
}

bool changes_its_object(const Value& value, std::string_view name) {
  if (is_list(value)) {
    return is_one_of(
        name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}
    );
  }
  return value.dict() != nullptr &&
         is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

// Attributes that Python has and this engine does not: better an error than a silent nothing.
bool is_not_offered(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return is_one_of(name, {"encode", "maketrans", "translate"});
  if (value.is_number()) {
    return is_one_of(
        name,
        {"real",
         "imag",
         "numerator",
         "denominator",
         "conjugate",
         "bit_length",
         "bit_count",
         "to_bytes",
         "from_bytes",
         "as_integer_ratio",
         "is_integer",
         "hex",
         "fromhex"}
    );
  }
  if (value.dict() != nullptr) return name == "fromkeys";
  return false;
}

Value unsafe(Run& run, const Value& value, std::string_view name) {
  return run.undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value))
  );
}

Value bound(Run& run, const Value& self, std::string_view name, Native native) {
  return run.object(Function{std::string(name), native, self}, self.depth());
}

std::optional<Value> loop_attribute(Run& run, Loop& loop, std::string_view name) {
  if (name == "index") return loop.index0 + 1;
  if (name == "index0") return loop.index0;
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return run.peek(loop) == nullptr;
  if (name == "length") return run.length(loop);
  if (name == "revindex") return run.length(loop) - loop.index0;
  if (name == "revindex0") return run.length(loop) - loop.index0 - 1;
  if (name == "depth") return loop.depth0 + 1;
  if (name == "depth0") return loop.depth0;
  if (name == "previtem") {
    return loop.index0 == 0 ? run.undefined("there is no previous item") : loop.previous;
  }
  if (name == "nextitem") {
    const Value* next = run.peek(loop);
    return next == nullptr ? run.undefined("there is no next item") : *next;
  }
  return std::nullopt;
}

std::optional<Value> object_attribute(Run& run, const Value& value, std::string_view name) {
  Object& object = *value.object();
  if (Namespace* ns = object.as<Namespace>()) {
    const Value* found = ns->attributes.find(name);
    if (found != nullptr) return *found;
    return std::nullopt;
  }
  if (Loop* loop = object.as<Loop>()) {
    if (std::optional<Value> found = loop_attribute(run, *loop, name)) return found;
  }
  if (Macro* macro = object.as<Macro>()) {
    if (name == "name") return run.str(macro->body->name);
  }
  if (Cycler* cycler = object.as<Cycler>()) {
    if (name == "current") return cycler->items[cycler->position];
  }
  if (const Native native = find_object_method(object, name))
    return bound(run, value, name, native);
  return std::nullopt;
}

// What Python's getattr() finds; nullopt where it raises AttributeError.
std::optional<Value> own_attribute(Run& run, const Value& value, std::string_view name) {
  if (value.object() != nullptr) {
    if (std::optional<Value> found = object_attribute(run, value, name)) return found;
  }
  Native native = nullptr;
  if (value.text() != nullptr) {
    native = find_string_method(name);
  } else if (value.dict() != nullptr) {
    native = find_dict_method(name);
  } else if (is_list(value) || is_tuple(value) || value.range() != nullptr) {
    native = find_sequence_method(name);
  }
  if (native != nullptr) return bound(run, value, name, native);
  const Sequence* group = value.sequence();
  if (group != nullptr && group->kind == SequenceKind::kGroup) {
    if (name == "grouper") return group->items[0];
    if (name == "list") return group->items[1];
  }
  if (const Range* range = value.range()) {
    if (name == "start") return range->start;
    if (name == "stop") return range->stop;
    if (name == "step") return range->step;
  }
  if (changes_its_object(value, name) || is_object_internal(name)) return unsafe(run, value, name);
  if (is_not_offered(value, name)) {
    return run.fail_unsupported(
        fmt::format("'{}' of '{}' is not supported in chat templates", name, type_name(value))
    );
  }
  return std::nullopt;
}

// What Python's value[key] gives; nullopt where it raises.
std::optional<Value> own_item(Run& run, const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    const Value* found = dict->find(key);
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  const std::optional<int64_t> index = key.as_int();
  if (!index) return std::nullopt;
  if (const Text* text = value.text()) {
    const std::optional<size_t> at = resolve_index(*index, text->num_code_points());
    if (!at || !run.work(text->size() / 8)) return std::nullopt;
    const size_t begin = text->byte_of(*at);
    return run.str(text->slice(begin, code_point_end(text->view(), begin)));
  }
  if (const Range* range = value.range()) {
    const std::optional<size_t> at = resolve_index(*index, static_cast<size_t>(range->size()));
    if (!at) return std::nullopt;
    return range->at(static_cast<int64_t>(*at));
  }
  if (!is_list(value) && !is_tuple(value)) return std::nullopt;
  const std::vector<Value>& items = value.sequence()->items;
  const std::optional<size_t> at = resolve_index(*index, items.size());
  if (!at) return std::nullopt;
  return items[*at];
}

Value no_attribute(Run& run, const Value& value, std::string_view name) {
  return run.undefined(fmt::format("'{}' has no attribute '{}'", object_type_name(value), name));
}

// The bounds of a slice, as Python's slice.indices().
struct SliceIndices {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

std::optional<int64_t> slice_part(Run& run, const Value& part) {
  if (part.is_none()) return std::nullopt;
  const std::optional<int64_t> index = part.as_int();
  if (!index) {
    run.fail("slice indices must be integers or None or have an __index__ method");
  }
  return index;
}

SliceIndices slice_indices(
    Run& run, int64_t size, const Value& start, const Value& stop, const Value& step
) {
  SliceIndices result;
  result.step = slice_part(run, step).value_or(1);
  if (result.step == 0) run.fail("slice step cannot be zero");
  const bool is_forward = result.step > 0;
  const int64_t lowest = is_forward ? 0 : -1;
  const int64_t highest = is_forward ? size : size - 1;
  const auto place = [&](const Value& part, int64_t otherwise) {
    const std::optional<int64_t> index = slice_part(run, part);
    if (!index) return otherwise;
    const int64_t from_start = *index < 0 ? std::max(*index, -size - 1) + size : *index;
    return std::clamp(from_start, lowest, highest);
  };
  result.start = place(start, is_forward ? lowest : highest);
  const int64_t end = place(stop, is_forward ? highest : lowest);
  if (!run.failed()) result.count = Range{result.start, end, result.step}.size();
  return result;
}

Value slice_text(Run& run, const Text& text, const SliceIndices& indices) {
  TextBuilder out = run.builder();
  run.work(text.size());
  if (indices.count == 0) return run.str("");
  if (indices.step == 1) {
    const size_t begin = text.byte_of(static_cast<size_t>(indices.start));
    const size_t end = text.byte_of(static_cast<size_t>(indices.start + indices.count));
    out.append(text, begin, end);
    return run.str(out);
  }
  std::vector<size_t> starts;
  if (!run.step(text.num_code_points() / 8)) return {};
  for (size_t i = 0; i < text.size(); i = code_point_end(text.view(), i)) starts.push_back(i);
  for (int64_t i = 0; i < indices.count; ++i) {
    const size_t begin = starts[static_cast<size_t>(indices.start + i * indices.step)];
    out.append(text, begin, code_point_end(text.view(), begin));
  }
  return run.str(out);
}

}  // namespace

Value get_attribute(Run& run, const Value& value, std::string_view name) {
  if (run.failed()) return {};
  if (value.is_undefined()) {
    return is_object_internal(name) ? unsafe(run, value, name) : run.call(value, {});
  }
  if (std::optional<Value> found = own_attribute(run, value, name)) return *found;
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_attribute(run, value, name);
}

Value get_item(Run& run, const Value& value, const Value& key) {
  if (run.failed()) return {};
  if (value.is_undefined()) return run.call(value, {});
  if (std::optional<Value> found = own_item(run, value, key)) return *found;
  if (run.failed()) return {};
  if (const Text* name = key.text()) {
    if (std::optional<Value> found = own_attribute(run, value, name->view())) return *found;
    return no_attribute(run, value, name->view());
  }
  return run.undefined(fmt::format("{} has no element {}", object_type_name(value), repr(run, key))
  );
}

Value get_slice(
    Run& run, const Value& value, const Value& start, const Value& stop, const Value& step
) {
  if (value.is_undefined()) return run.call(value, {});
  if (value.dict() != nullptr) return run.fail("unhashable type: 'slice'");
  const bool is_sliceable =
      value.text() != nullptr || value.range() != nullptr || is_list(value) || is_tuple(value);
  if (!is_sliceable) {
    return run.fail(fmt::format("'{}' object is not subscriptable", type_name(value)));
  }
  const int64_t size = length(run, value).value_or(0);
  const SliceIndices indices = slice_indices(run, size, start, stop, step);
  if (run.failed()) return {};
  if (const Text* text = value.text()) return slice_text(run, *text, indices);
  if (const Range* range = value.range()) {
    // With two items or more, their distance is inside of the range and so fits.
    const int64_t width = indices.count > 1 ? range->step * indices.step : 1;
    const int64_t first = indices.count > 0 ? range->at(indices.start) : range->start;
    return std::make_shared<const Range>(Range{first, first + indices.count * width, width});
  }
  if (!run.step(static_cast<uint64_t>(indices.count))) return {};
  std::vector<Value> items;
  for (int64_t i = 0; i < indices.count; ++i) {
    items.push_back(value.sequence()->items[static_cast<size_t>(indices.start + i * indices.step)]);
  }
  return run.sequence(
      std::move(items), is_list(value) ? SequenceKind::kList : SequenceKind::kTuple
  );
}

}  // namespace millrace::jinja
