// The values of a running template: Python's None, bool, int, float, str, list, tuple, dict, range
// and the few objects that a chat template meets.
//
// Values are immutable and shared, so a copy is a pointer. Three objects change: a namespace, a
// loop and an iterator. Each container counts its nesting, which the maker limits, so nothing that
// walks or frees values recurses without bound.
//
// One thread renders one template: no value is shared between threads, except for constants of a
// parsed template, which nothing changes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/text.h"

namespace millrace::jinja {

// How many bytes of values are alive. Outlives them all.
class Budget {
 public:
  explicit Budget(size_t bytes_max) : bytes_max_(bytes_max) {}
  bool take(size_t num_bytes) {
    if (num_bytes > bytes_max_ - bytes_used_) return false;
    bytes_used_ += num_bytes;
    return true;
  }
  void give_back(size_t num_bytes) { bytes_used_ -= num_bytes; }

 private:
  size_t bytes_max_;
  size_t bytes_used_ = 0;
};

// The share of a budget that one value holds.
class Charge {
 public:
  Charge() = default;
  Charge(Budget& budget, size_t num_bytes) : budget_(&budget), num_bytes_(num_bytes) {}
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), num_bytes_(other.num_bytes_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give_back(num_bytes_);
  }

 private:
  Budget* budget_ = nullptr;
  size_t num_bytes_ = 0;
};

struct None {};
struct Undefined;
struct Str;
struct Sequence;
struct Dict;
struct Range;
struct Object;

class Value {
 public:
  Value() = default;  // undefined, without a story
  Value(None) : storage_(None{}) {}
  Value(bool value) : storage_(value) {}
  Value(int64_t value) : storage_(value) {}
  // An int that JSON gave and int64 cannot hold; see large_int().
  // REQUIRES: value > INT64_MAX.
  explicit Value(uint64_t value) : storage_(value) {}
  Value(double value) : storage_(value) {}
  Value(std::shared_ptr<const Undefined> value) : storage_(std::move(value)) {}
  Value(std::shared_ptr<const Str> value) : storage_(std::move(value)) {}
  Value(std::shared_ptr<const Sequence> value) : storage_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value) : storage_(std::move(value)) {}
  Value(std::shared_ptr<const Range> value) : storage_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : storage_(std::move(value)) {}
  Value(const char*) = delete;  // would silently be a bool

  bool is_undefined() const { return storage_.index() == 0; }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  bool is_bool() const { return std::holds_alternative<bool>(storage_); }
  bool is_int() const {
    return std::holds_alternative<int64_t>(storage_) || large_int() != nullptr;
  }
  bool is_float() const { return std::holds_alternative<double>(storage_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }

  // Null when it is something else.
  const Undefined* undefined() const { return pointer<const Undefined>(); }
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  // An int beyond int64: it is shown and compared as it is, and arithmetic with it overflows.
  const uint64_t* large_int() const { return std::get_if<uint64_t>(&storage_); }
  const double* floating() const { return std::get_if<double>(&storage_); }
  const Text* text() const;
  const Sequence* sequence() const { return pointer<const Sequence>(); }
  const Dict* dict() const { return pointer<const Dict>(); }
  const Range* range() const { return pointer<const Range>(); }
  Object* object() const { return pointer<Object>(); }
  std::shared_ptr<Object> shared_object() const {
    const auto* shared = std::get_if<std::shared_ptr<Object>>(&storage_);
    return shared == nullptr ? nullptr : *shared;
  }

  // An int that is not large, or a bool as Python counts it.
  std::optional<int64_t> as_int() const;
  // Any number as a float. REQUIRES: is_number().
  double as_double() const;
  // Any number exactly, by the 64 bits that a long double has. REQUIRES: is_number().
  long double as_exact() const;
  // Identity as `is` sees it: the same object, or the same None or bool.
  bool is_same(const Value& other) const;
  // How deeply containers nest inside.
  int depth() const;

 private:
  template <class T>
  T* pointer() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&storage_);
    return shared == nullptr ? nullptr : shared->get();
  }

  std::variant<
      std::shared_ptr<const Undefined>,
      None,
      bool,
      int64_t,
      uint64_t,
      double,
      std::shared_ptr<const Str>,
      std::shared_ptr<const Sequence>,
      std::shared_ptr<const Dict>,
      std::shared_ptr<const Range>,
      std::shared_ptr<Object>>
      storage_;
};

struct Undefined {
  std::string message;  // what a use of it says
};

struct Str {
  Text text;
  Charge charge;
};

enum class SequenceKind {
  kList,
  kTuple,
  kGroup,  // groupby's tuple, with .grouper and .list
  kDictItems,
  kDictKeys,
  kDictValues,
  kIterator,  // made at once here, yet used up as Python's generators are
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  mutable size_t num_consumed = 0;  // of an iterator
  int depth = 1;
  Charge charge;
};

struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;

  int64_t size() const;
  // REQUIRES: 0 <= index < size().
  int64_t at(int64_t index) const { return start + index * step; }
};

// A total order over what may be a key, in which 1, 1.0 and True are the same.
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

// In the order of insertion. The sorted index, not a hash table, since keys come from requests.
struct Dict {
  // Nullptr when the key is missing (or cannot be a key).
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);

  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
  Charge charge;

 private:
  std::optional<size_t> index_of(const Value& key) const;
  std::map<Value, size_t, KeyLess> index_;  // only of a dict that is not small
};

// str, numbers, None and tuples of them.
bool is_hashable(const Value& value);

bool is_list(const Value& value);
bool is_tuple(const Value& value);  // groups too

}  // namespace millrace::jinja
