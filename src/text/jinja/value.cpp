#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/object.h"

namespace millrace::jinja {
namespace {

constexpr size_t kIndexedDictSize = 16;  // below it, looking at every key is faster

// None < numbers < strings < tuples < objects.
int key_rank(const Value& value) {
  if (value.is_none()) return 0;
  if (value.is_number()) return 1;
  if (value.text() != nullptr) return 2;
  if (value.sequence() != nullptr) return 3;
  return 4;
}

bool number_less(const Value& a, const Value& b) {
  if (a.as_int() && b.as_int()) return *a.as_int() < *b.as_int();
  const long double x = a.as_exact();
  const long double y = b.as_exact();
  // NaN needs a place as well, or the order is none.
  if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
  return x < y;
}

bool same_key(const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->view() == b.text()->view();
  const KeyLess less;
  return !less(a, b) && !less(b, a);
}

}  // namespace

const Text* Value::text() const {
  const Str* str = pointer<const Str>();
  return str == nullptr ? nullptr : &str->text;
}

std::optional<int64_t> Value::as_int() const {
  if (const auto* integer = std::get_if<int64_t>(&storage_)) return *integer;
  if (const bool* truth = boolean()) return *truth ? 1 : 0;
  return std::nullopt;
}

double Value::as_double() const {
  return static_cast<double>(as_exact());
}

long double Value::as_exact() const {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  if (const double* number = floating()) return *number;
  if (const uint64_t* large = large_int()) return static_cast<long double>(*large);
  return static_cast<long double>(as_int().value_or(0));
}

bool Value::is_same(const Value& other) const {
  if (storage_.index() != other.storage_.index()) return false;
  return std::visit(
      [&other](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else {
          return mine == std::get<T>(other.storage_);
        }
      },
      storage_
  );
}

int Value::depth() const {
  if (const Sequence* items = sequence()) return items->depth;
  if (const Dict* mapping = dict()) return mapping->depth;
  if (const Object* thing = object()) return thing->depth;
  return 0;
}

int64_t Range::size() const {
  // In 128 bits, since stop - start of two int64 may not fit in one.
  const __int128_t span = step > 0 ? __int128_t{stop} - start : __int128_t{start} - stop;
  const __int128_t width = step > 0 ? __int128_t{step} : -__int128_t{step};
  if (span <= 0) return 0;
  const __int128_t count = (span + width - 1) / width;
  return count > INT64_MAX ? INT64_MAX : static_cast<int64_t>(count);
}

bool KeyLess::operator()(const Value& a, const Value& b) const {
  const int rank = key_rank(a);
  if (rank != key_rank(b)) return rank < key_rank(b);
  switch (rank) {
    case 0:
      return false;
    case 1:
      return number_less(a, b);
    case 2:
      return a.text()->view() < b.text()->view();
    case 3: {
      const std::vector<Value>& x = a.sequence()->items;
      const std::vector<Value>& y = b.sequence()->items;
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(), KeyLess());
    }
    default:
      return std::less<const Object*>()(a.object(), b.object());
  }
}

std::optional<size_t> Dict::index_of(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (same_key(entries[i].first, key)) return i;
  }
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  if (!is_hashable(key)) return nullptr;
  const std::optional<size_t> index = index_of(key);
  return index ? &entries[*index].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries) {
      const Text* text = name.text();
      if (text != nullptr && text->view() == key) return &value;
    }
    return nullptr;
  }
  return find(Value(std::make_shared<const Str>(Str{Text(std::string(key)), {}})));
}

void Dict::set(Value key, Value value) {
  depth = std::max({depth, key.depth() + 1, value.depth() + 1});
  if (const std::optional<size_t> index = index_of(key)) {
    entries[*index].second = std::move(value);
    return;
  }
  if (!index_.empty()) index_.emplace(key, entries.size());
  entries.emplace_back(std::move(key), std::move(value));
  if (index_.empty() && entries.size() > kIndexedDictSize) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(entries[i].first, i);
  }
}

bool is_hashable(const Value& value) {
  if (value.dict() != nullptr || value.range() != nullptr) return false;
  const Sequence* items = value.sequence();
  if (items == nullptr) return true;
  return is_tuple(value) && std::all_of(items->items.begin(), items->items.end(), is_hashable);
}

bool is_list(const Value& value) {
  const Sequence* items = value.sequence();
  return items != nullptr && items->kind == SequenceKind::kList;
}

bool is_tuple(const Value& value) {
  const Sequence* items = value.sequence();
  return items != nullptr &&
         (items->kind == SequenceKind::kTuple || items->kind == SequenceKind::kGroup);
}

}  // namespace millrace::jinja
