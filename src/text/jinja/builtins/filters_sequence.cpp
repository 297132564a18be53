// The filters over lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/builtins/text_transform.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"

namespace millrace::jinja {
namespace {

// How Jinja names an attribute: "a.b.0", an index, or nothing for the item itself.
class AttributeGetter {
 public:
  AttributeGetter(Run& run, const Value* attribute) : run_(run) {
    if (attribute == nullptr || attribute->is_none()) return;
    const Text* path = attribute->text();
    if (path == nullptr) {
      parts_.push_back(*attribute);
      return;
    }
    for (size_t begin = 0; begin <= path->size() && run_.step();) {
      const size_t end = std::min(path->view().find('.', begin), path->size());
      parts_.push_back(part(path->slice(begin, end)));
      begin = end + 1;
    }
  }

  Value operator()(Value item, const Value* otherwise = nullptr) const {
    for (const Value& part : parts_) {
      item = get_item(run_, item, part);
      if (item.is_undefined() && otherwise != nullptr && !otherwise->is_none()) item = *otherwise;
    }
    return item;
  }

 private:
  Value part(Text name) {
    int64_t index = 0;
    const char* end = name.view().data() + name.size();
    const auto parsed = std::from_chars(name.view().data(), end, index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == end && index >= 0;
    return is_index ? Value(index) : run_.str(std::move(name));
  }

  Run& run_;
  std::vector<Value> parts_;
};

Value ignore_case(Run& run, const Value& value, bool is_case_sensitive) {
  if (is_case_sensitive || value.text() == nullptr) return value;
  return run.str(change_case(run, *value.text(), LetterCase::kLower));
}

Value iterator(Run& run, std::vector<Value> items) {
  return run.sequence(std::move(items), SequenceKind::kIterator);
}

struct Keyed {
  Value key;
  Value item;
};

void sort_keyed(Run& run, std::vector<Keyed>& items, bool is_reversed) {
  // A stable merge sort stays in bounds even while `less` fails and answers at random.
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    if (run.failed()) return false;
    return is_reversed ? less(run, b.key, a.key) : less(run, a.key, b.key);
  });
}

Value list_of_items(Run& run, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return run.failed() ? Value() : run.sequence(std::move(items));
}

Value sort_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  const bool is_case_sensitive = bound.truth(1, false);
  std::vector<AttributeGetter> getters;
  const Value* attribute = bound.some(2);
  const Text* names = attribute == nullptr ? nullptr : attribute->text();
  if (names == nullptr) getters.emplace_back(run, attribute);
  for (size_t begin = 0; names != nullptr && begin <= names->size() && run.step();) {
    const size_t end = std::min(names->view().find(',', begin), names->size());
    const Value name = run.str(names->slice(begin, end));
    getters.emplace_back(run, &name);
    begin = end + 1;
  }
  std::vector<Keyed> keyed;
  for (Value& item : iterate(run, self)) {
    std::vector<Value> keys;
    for (const AttributeGetter& get : getters) {
      keys.push_back(ignore_case(run, get(item), is_case_sensitive));
    }
    keyed.push_back({run.sequence(std::move(keys)), std::move(item)});
  }
  sort_keyed(run, keyed, bound.truth(0, false));
  return list_of_items(run, std::move(keyed));
}

Value dictsort_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const Text by = bound.text(1, "key");
  if (by.view() != "key" && by.view() != "value") {
    return run.fail("You can only sort by either \"key\" or \"value\"");
  }
  if (self.dict() == nullptr) return run.call(get_attribute(run, self, "items"), {});
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : self.dict()->entries) {
    const Value& sorted_by = by.view() == "key" ? key : value;
    keyed.push_back(
        {ignore_case(run, sorted_by, bound.truth(0, false)),
         run.sequence({key, value}, SequenceKind::kTuple)}
    );
  }
  sort_keyed(run, keyed, bound.truth(2, false));
  return list_of_items(run, std::move(keyed));
}

template <bool is_max>
Value extreme_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, is_max ? "max" : "min", {"case_sensitive", "attribute"});
  const AttributeGetter get(run, bound.some(1));
  const std::vector<Value> items = iterate(run, self);
  if (items.empty()) return run.undefined("No aggregated item, sequence was empty.");
  Value best = items[0];
  Value best_key = ignore_case(run, get(best), bound.truth(0, false));
  for (size_t i = 1; i < items.size() && !run.failed(); ++i) {
    Value key = ignore_case(run, get(items[i]), bound.truth(0, false));
    const bool is_better = is_max ? less(run, best_key, key) : less(run, key, best_key);
    if (!is_better) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

Value unique_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "unique", {"case_sensitive", "attribute"});
  const AttributeGetter get(run, bound.some(1));
  Dict seen;
  std::vector<Value> result;
  for (Value& item : iterate(run, self)) {
    Value key = ignore_case(run, get(item), bound.truth(0, false));
    if (run.failed()) return {};
    if (!is_hashable(key)) return run.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), true);
    result.push_back(std::move(item));
  }
  return iterator(run, std::move(result));
}

Value groupby_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  if (run.failed()) return {};
  const AttributeGetter get(run, bound.at(0));
  std::vector<Keyed> keyed;
  for (Value& item : iterate(run, self)) {
    Value key = ignore_case(run, get(item, bound.at(1)), bound.truth(2, false));
    keyed.push_back({std::move(key), std::move(item)});
  }
  sort_keyed(run, keyed, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size() && !run.failed();) {
    size_t end = begin;
    std::vector<Value> items;
    for (; end < keyed.size() && equals(run, keyed[begin].key, keyed[end].key); ++end) {
      items.push_back(keyed[end].item);
    }
    if (end == begin) break;  // only after a failure, or a NaN: equal to nothing
    Value grouper = get(items[0], bound.at(1));
    groups.push_back(
        run.sequence({std::move(grouper), run.sequence(std::move(items))}, SequenceKind::kGroup)
    );
    begin = end;
  }
  return run.failed() ? Value() : run.sequence(std::move(groups));
}

Value sum_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "sum", {"attribute", "start"});
  const AttributeGetter get(run, bound.some(0));
  Value total = bound.value(1, int64_t{0});
  if (total.text() != nullptr)
    return run.fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (Value& item : iterate(run, self)) {
    if (run.failed()) return {};
    total = binary(run, BinaryOperator::kAdd, total, get(std::move(item)));
  }
  return total;
}

Value join_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "join", {"d", "attribute"});
  const Text separator = bound.text(0, "");
  const AttributeGetter get(run, bound.some(1));
  TextBuilder out = run.builder();
  bool is_first = true;
  for (Value& item : iterate(run, self)) {
    if (!run.step() || out.overflowed()) break;
    if (!std::exchange(is_first, false)) out.append(separator);
    append_str(run, get(std::move(item)), out);
  }
  return run.failed() ? Value() : run.str(out);
}

Value first_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "first", {});
  if (run.failed()) return {};
  const Sequence* sequence = self.sequence();
  const bool is_iterator = sequence != nullptr && sequence->kind == SequenceKind::kIterator;
  if (is_iterator && sequence->num_consumed < sequence->items.size()) {
    return sequence->items[sequence->num_consumed++];
  }
  if (const Text* text = self.text(); text != nullptr && !text->empty()) {
    return run.str(text->slice(0, code_point_at(*text, 0).end));
  }
  const std::vector<Value> items = iterate(run, self);
  return items.empty() ? run.undefined("No first item, sequence was empty.") : items.front();
}

Value last_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "last", {});
  const Sequence* sequence = self.sequence();
  if (!is_iterable(self) || (sequence != nullptr && sequence->kind == SequenceKind::kIterator)) {
    return run.fail(fmt::format("'{}' object is not reversible", type_name(self)));
  }
  const std::vector<Value> items = iterate(run, self);
  return items.empty() ? run.undefined("No last item, sequence was empty.") : items.back();
}

Value reverse_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "reverse", {});
  if (self.text() != nullptr) return get_slice(run, self, None{}, None{}, int64_t{-1});
  if (!is_iterable(self)) return run.fail("argument must be iterable");
  std::vector<Value> items = iterate(run, self);
  std::reverse(items.begin(), items.end());
  return iterator(run, std::move(items));
}

Value list_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "list", {});
  std::vector<Value> items = iterate(run, self);
  return run.failed() ? Value() : run.sequence(std::move(items));
}

Value items_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "items", {});
  std::vector<Value> items;
  if (self.dict() == nullptr && !self.is_undefined()) {
    return run.fail("Can only get item pairs from a mapping.");
  }
  for (size_t i = 0; self.dict() != nullptr && i < self.dict()->entries.size(); ++i) {
    const auto& [key, value] = self.dict()->entries[i];
    items.push_back(run.sequence({key, value}, SequenceKind::kTuple));
  }
  return iterator(run, std::move(items));
}

Value batch_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "batch", {"linecount", "fill_with"}, 1);
  const int64_t line_count = bound.integer(0, 1);
  std::vector<Value> batches;
  std::vector<Value> line;
  for (Value& item : iterate(run, self)) {
    if (static_cast<int64_t>(line.size()) == line_count) {
      batches.push_back(run.sequence(std::exchange(line, {})));
    }
    line.push_back(std::move(item));
  }
  if (run.failed()) return {};
  if (!line.empty()) {
    const Value* fill = bound.some(1);
    const int64_t missing = line_count - static_cast<int64_t>(line.size());
    if (fill != nullptr && missing > 0) {
      if (!run.step(static_cast<uint64_t>(missing))) return {};
      line.insert(line.end(), static_cast<size_t>(missing), *fill);
    }
    batches.push_back(run.sequence(std::move(line)));
  }
  return iterator(run, std::move(batches));
}

Value slice_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "slice", {"slices", "fill_with"}, 1);
  const int64_t num_slices = bound.integer(0, 1);
  const std::vector<Value> items = iterate(run, self);
  if (run.failed()) return {};
  if (num_slices == 0) return run.fail("integer division or modulo by zero");
  std::vector<Value> slices;
  if (num_slices < 0) return iterator(run, {});
  if (!run.step(static_cast<uint64_t>(num_slices))) return {};
  const size_t count = static_cast<size_t>(num_slices);
  const size_t num_extra = items.size() % count;
  size_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = begin + items.size() / count + (i < num_extra ? 1 : 0);
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto stop = items.begin() + static_cast<std::ptrdiff_t>(end);
    std::vector<Value> part(first, stop);
    if (bound.some(1) != nullptr && i >= num_extra) part.push_back(*bound.some(1));
    slices.push_back(run.sequence(std::move(part)));
    begin = end;
  }
  return iterator(run, std::move(slices));
}

// The name of a filter or test as the first argument, and the rest of the arguments.
Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  const auto first = arguments.positional.begin() + static_cast<std::ptrdiff_t>(count);
  rest.positional.assign(first, arguments.positional.end());
  rest.keywords = arguments.keywords;
  return rest;
}

Value map_attribute(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "map", {"attribute", "default"});
  const AttributeGetter get(run, bound.at(0));
  std::vector<Value> result;
  for (Value& item : iterate(run, self)) result.push_back(get(std::move(item), bound.at(1)));
  return run.failed() ? Value() : iterator(run, std::move(result));
}

Value map_filter(Run& run, const Value& self, const Arguments& arguments) {
  if (!truth(run, self)) return iterator(run, {});
  const auto& keywords = arguments.keywords;
  const bool has_attribute = std::any_of(keywords.begin(), keywords.end(), [](const auto& keyword) {
    return keyword.first == "attribute";
  });
  if (arguments.positional.empty() && has_attribute) return map_attribute(run, self, arguments);
  if (arguments.positional.empty()) return run.fail("map requires a filter argument");
  const Text* name = arguments.positional[0].text();
  const Native filter = name == nullptr ? nullptr : find_filter(name->view());
  std::vector<Value> items = iterate(run, self);
  if (filter == nullptr && !items.empty()) {
    return run.fail(fmt::format("No filter named {}.", repr(run, arguments.positional[0])));
  }
  const Arguments rest = without_first(arguments, 1);
  for (Value& item : items) {
    if (!run.step()) return {};
    item = filter(run, item, rest);
  }
  return iterator(run, std::move(items));
}

template <bool is_select, bool has_attribute>
Value select_filter(Run& run, const Value& self, const Arguments& arguments) {
  if (!truth(run, self)) return iterator(run, {});
  constexpr size_t kNameIndex = has_attribute ? 1 : 0;
  if (arguments.positional.size() < kNameIndex) {
    return run.fail("Missing parameter for attribute name");
  }
  const AttributeGetter get(run, has_attribute ? arguments.positional.data() : nullptr);
  const bool has_test = arguments.positional.size() > kNameIndex;
  const Text* name = has_test ? arguments.positional[kNameIndex].text() : nullptr;
  const Native test = name == nullptr ? nullptr : find_test(name->view());
  const std::vector<Value> items = iterate(run, self);
  if (has_test && test == nullptr && !items.empty()) {
    return run.fail(fmt::format("No test named {}.", repr(run, arguments.positional[kNameIndex])));
  }
  const Arguments rest = has_test ? without_first(arguments, kNameIndex + 1) : Arguments();
  std::vector<Value> result;
  for (const Value& item : items) {
    if (!run.step()) return {};
    const Value subject = get(item);
    if (run.failed()) return {};
    const Value tested = has_test ? test(run, subject, rest) : subject;
    if (!run.failed() && truth(run, tested) == is_select) result.push_back(item);
  }
  return run.failed() ? Value() : iterator(run, std::move(result));
}

}  // namespace

const std::vector<NamedNative>& sequence_filters() {
  static const std::vector<NamedNative> kTable = {
      {"batch", batch_filter},
      {"dictsort", dictsort_filter},
      {"first", first_filter},
      {"groupby", groupby_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"last", last_filter},
      {"list", list_filter},
      {"map", map_filter},
      {"max", extreme_filter<true>},
      {"min", extreme_filter<false>},
      {"reject", select_filter<false, false>},
      {"rejectattr", select_filter<false, true>},
      {"reverse", reverse_filter},
      {"select", select_filter<true, false>},
      {"selectattr", select_filter<true, true>},
      {"slice", slice_filter},
      {"sort", sort_filter},
      {"sum", sum_filter},
      {"unique", unique_filter},
  };
  return kTable;
}

}  // namespace millrace::jinja
