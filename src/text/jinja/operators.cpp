#include "text/jinja/operators.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/convert.h"
#include "text/jinja/object.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

std::string sequence_type_name(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kGroup:
      return "_GroupTuple";
    case SequenceKind::kDictItems:
      return "dict_items";
    case SequenceKind::kDictKeys:
      return "dict_keys";
    case SequenceKind::kDictValues:
      return "dict_values";
    case SequenceKind::kIterator:
      return "generator";
  }
  return "list";
}

bool is_iterator(const Value& value) {
  const Sequence* items = value.sequence();
  return items != nullptr && items->kind == SequenceKind::kIterator;
}

// Where Python finds the type of an object that is not built in, with a dot at the end.
std::string module_of(const Value& value) {
  Object* object = value.object();
  if (object == nullptr || object->as<Function>() != nullptr) return "";
  if (object->as<Namespace>() != nullptr) return "transformers.utils.chat_template_utils.";
  const bool is_runtime = object->as<Macro>() != nullptr || object->as<Loop>() != nullptr;
  return is_runtime ? "jinja2.runtime." : "jinja2.utils.";
}

// Lists equal lists, tuples equal tuples; a view of a dict equals what has the same items.
int sequence_family(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return 0;
    case SequenceKind::kTuple:
    case SequenceKind::kGroup:
      return 1;
    case SequenceKind::kDictItems:
    case SequenceKind::kDictKeys:
      return 2;
    case SequenceKind::kDictValues:
    case SequenceKind::kIterator:
      break;
  }
  return 3;  // by identity only
}

bool equal_items(Run& run, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].is_same(b[i]) && !equals(run, a[i], b[i])) return false;
  }
  return true;
}

bool equal_sequences(Run& run, const Value& a, const Value& b) {
  const int family = sequence_family(a.sequence()->kind);
  if (family != sequence_family(b.sequence()->kind) || family == 3) return a.is_same(b);
  if (family != 2) return equal_items(run, a.sequence()->items, b.sequence()->items);
  if (a.sequence()->items.size() != b.sequence()->items.size()) return false;
  return std::all_of(
      a.sequence()->items.begin(),
      a.sequence()->items.end(),
      [&](const Value& item) { return contains(run, b, item); }
  );
}

bool equal_dicts(Run& run, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (!run.step() || other == nullptr) return false;
    if (!value.is_same(*other) && !equals(run, value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

std::string_view symbol(Comparison op) {
  switch (op) {
    case Comparison::kLess:
      return "<";
    case Comparison::kLessEqual:
      return "<=";
    case Comparison::kGreater:
      return ">";
    default:
      return ">=";
  }
}

template <class T>
bool ordered(Comparison op, const T& a, const T& b) {
  switch (op) {
    case Comparison::kLess:
      return a < b;
    case Comparison::kLessEqual:
      return a <= b;
    case Comparison::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

// An int and a float compare exactly, as Python's do, and not after rounding the int.
bool ordered_numbers(Comparison op, const Value& a, const Value& b) {
  if (a.as_int() && b.as_int()) return ordered(op, *a.as_int(), *b.as_int());
  return ordered(op, a.as_exact(), b.as_exact());
}

bool ordered_sequences(Run& run, Comparison op, const Sequence& a, const Sequence& b) {
  const size_t size = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < size && !run.failed(); ++i) {
    if (!a.items[i].is_same(b.items[i]) && !equals(run, a.items[i], b.items[i])) {
      return compare(run, op, a.items[i], b.items[i]);
    }
  }
  return ordered(op, a.items.size(), b.items.size());
}

bool order(Run& run, Comparison op, const Value& a, const Value& b) {
  if (!run.step()) return false;
  if (a.is_number() && b.is_number()) return ordered_numbers(op, a, b);
  if (a.text() != nullptr && b.text() != nullptr) {
    // UTF-8 sorts by bytes as Python's strings do by code points.
    run.work(std::min(a.text()->size(), b.text()->size()));
    return ordered(op, a.text()->view(), b.text()->view());
  }
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return run.call(*side, {}), false;
  }
  if ((is_list(a) && is_list(b)) || (is_tuple(a) && is_tuple(b))) {
    return ordered_sequences(run, op, *a.sequence(), *b.sequence());
  }
  run.fail(fmt::format(
      "'{}' not supported between instances of '{}' and '{}'",
      symbol(op),
      type_name(a),
      type_name(b)
  ));
  return false;
}

}  // namespace

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (value.text() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.range() != nullptr) return "range";
  if (value.sequence() != nullptr) return sequence_type_name(value.sequence()->kind);
  static constexpr std::string_view kObjects[] = {
      "TemplateNamespace",
      "builtin_function_or_method",
      "Macro",
      "LoopContext",
      "Joiner",
      "Cycler"};
  return std::string(kObjects[value.object()->kind.index()]);
}

std::string object_type_name(const Value& value) {
  if (value.is_none()) return "None";
  return module_of(value) + type_name(value) + " object";
}

bool truth(Run& run, const Value& value) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.as_double() != 0;
  if (is_iterator(value)) return true;
  if (Object* object = value.object()) {
    if (Loop* loop = object->as<Loop>()) return run.length(*loop) != 0;
    return true;
  }
  return length(run, value).value_or(1) != 0;
}

bool is_callable(const Value& value) {
  if (value.is_undefined()) return true;  // Jinja's Undefined has a __call__, which raises
  Object* object = value.object();
  return object != nullptr && object->as<Namespace>() == nullptr && object->as<Cycler>() == nullptr;
}

bool is_iterable(const Value& value) {
  if (value.object() != nullptr) return value.object()->as<Loop>() != nullptr;
  return !value.is_none() && !value.is_number();
}

std::optional<int64_t> length(Run& run, const Value& value) {
  size_t size = 0;
  if (const Text* text = value.text()) {
    size = text->num_code_points();
  } else if (const Dict* dict = value.dict()) {
    size = dict->entries.size();
  } else if (const Range* range = value.range()) {
    return range->size();
  } else if (value.sequence() != nullptr && !is_iterator(value)) {
    size = value.sequence()->items.size();
  } else if (Object* object = value.object()) {
    Loop* loop = object->as<Loop>();
    if (loop == nullptr) return std::nullopt;
    return run.length(*loop);
  } else if (!value.is_undefined()) {
    return std::nullopt;
  }
  return static_cast<int64_t>(size);
}

std::vector<Value> iterate(Run& run, const Value& value) {
  std::vector<Value> items;
  if (run.failed() || value.is_undefined()) return items;
  if (const Sequence* sequence = value.sequence()) {
    const size_t first = std::min(sequence->num_consumed, sequence->items.size());
    if (!run.step(sequence->items.size() - first)) return items;
    items.assign(
        sequence->items.begin() + static_cast<std::ptrdiff_t>(first), sequence->items.end()
    );
    if (is_iterator(value)) sequence->num_consumed = sequence->items.size();
  } else if (const Dict* dict = value.dict()) {
    if (!run.step(dict->entries.size())) return items;
    for (const auto& [key, ignored] : dict->entries) items.push_back(key);
  } else if (const Range* range = value.range()) {
    if (!run.step(static_cast<uint64_t>(range->size()))) return items;
    for (int64_t i = 0; i < range->size(); ++i) items.emplace_back(range->at(i));
  } else if (const Text* text = value.text()) {
    if (!run.step(text->num_code_points())) return items;
    for (size_t i = 0; i < text->size() && !run.failed();) {
      const size_t end = code_point_end(text->view(), i);
      items.push_back(run.str(text->slice(i, end)));
      i = end;
    }
  } else if (value.object() != nullptr && value.object()->as<Loop>() != nullptr) {
    run.fail_unsupported("iterating over the loop variable is not supported");
  } else {
    run.fail(fmt::format("'{}' object is not iterable", type_name(value)));
  }
  return items;
}

bool equals(Run& run, const Value& a, const Value& b) {
  if (!run.step()) return false;
  if (a.is_number() && b.is_number()) {
    if (a.as_int() && b.as_int()) return *a.as_int() == *b.as_int();
    return !ordered_numbers(Comparison::kLess, a, b) &&
           ordered_numbers(Comparison::kLessEqual, a, b);
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() != b.text()->size()) return false;
    return run.work(a.text()->size()) && a.text()->view() == b.text()->view();
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.sequence() != nullptr && b.sequence() != nullptr) return equal_sequences(run, a, b);
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(run, *a.dict(), *b.dict());
  if (a.range() != nullptr && b.range() != nullptr) return equal_ranges(*a.range(), *b.range());
  return a.is_same(b);
}

bool compare(Run& run, Comparison op, const Value& a, const Value& b) {
  switch (op) {
    case Comparison::kEqual:
      return equals(run, a, b);
    case Comparison::kNotEqual:
      return !equals(run, a, b);
    case Comparison::kIn:
      return contains(run, b, a);
    case Comparison::kNotIn:
      return !contains(run, b, a);
    default:
      return order(run, op, a, b);
  }
}

bool less(Run& run, const Value& a, const Value& b) {
  return order(run, Comparison::kLess, a, b);
}

bool contains(Run& run, const Value& container, const Value& item) {
  if (run.failed()) return false;
  if (const Text* text = container.text()) {
    if (item.is_undefined()) return run.call(item, {}), false;
    if (item.text() == nullptr) {
      run.fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item))
      );
      return false;
    }
    return find_text(run, text->view(), item.text()->view()) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (!is_hashable(item)) run.fail(fmt::format("unhashable type: '{}'", type_name(item)));
    return dict->find(item) != nullptr;
  }
  if (container.sequence() == nullptr && !is_iterable(container)) {
    run.fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
    return false;
  }
  const std::vector<Value> items = iterate(run, container);
  return std::any_of(items.begin(), items.end(), [&](const Value& candidate) {
    return candidate.is_same(item) || equals(run, candidate, item);
  });
}

std::optional<size_t> resolve_index(int64_t index, size_t size) {
  const auto signed_size = static_cast<int64_t>(size);
  if (index < -signed_size || index >= signed_size) return std::nullopt;
  return static_cast<size_t>(index < 0 ? index + signed_size : index);
}

size_t find_text(Run& run, std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  // memmem is linear in the worst case, where std::string_view::find is quadratic.
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  const size_t at = found == nullptr
                        ? std::string_view::npos
                        : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  const size_t num_searched = found == nullptr ? text.size() - from : at - from;
  return run.work(num_searched + wanted.size()) ? at : std::string_view::npos;
}

size_t rfind_text(Run& run, std::string_view text, std::string_view wanted) {
  if (wanted.size() > text.size()) return std::string_view::npos;
  if (!run.work(2 * text.size())) return std::string_view::npos;
  const std::string backwards(text.rbegin(), text.rend());
  const std::string wanted_backwards(wanted.rbegin(), wanted.rend());
  const size_t at = find_text(run, backwards, wanted_backwards);
  return at == std::string_view::npos ? at : text.size() - at - wanted.size();
}

}  // namespace millrace::jinja
