// What Python's operators and built-in functions do with the values of a template. Where Python
// raises, the run fails with Python's message and the result means nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/run.h"
#include "text/jinja/value.h"

namespace millrace::jinja {

// type(value).__name__, and what Jinja's messages call it ("dict object").
std::string type_name(const Value& value);
std::string object_type_name(const Value& value);

bool truth(Run& run, const Value& value);
bool is_callable(const Value& value);
bool is_iterable(const Value& value);
// nullopt where Python's len() raises.
std::optional<int64_t> length(Run& run, const Value& value);
// The items; what is left of an iterator, which is used up then.
std::vector<Value> iterate(Run& run, const Value& value);

bool equals(Run& run, const Value& a, const Value& b);
bool compare(Run& run, Comparison op, const Value& a, const Value& b);
// a < b, for sorting.
bool less(Run& run, const Value& a, const Value& b);
bool contains(Run& run, const Value& container, const Value& item);

Value binary(Run& run, BinaryOperator op, const Value& a, const Value& b);
Value unary(Run& run, UnaryOperator op, const Value& operand);

// `value.name` and `value[key]`, which fall back to each other as Jinja's do.
Value get_attribute(Run& run, const Value& value, std::string_view name);
Value get_item(Run& run, const Value& value, const Value& key);
Value get_slice(
    Run& run, const Value& value, const Value& start, const Value& stop, const Value& step
);

// A position like "first" or "-1" of a sequence; nullopt outside of it.
std::optional<size_t> resolve_index(int64_t index, size_t size);

// Searches in linear time, whatever the strings are; counts as work.
size_t find_text(Run& run, std::string_view text, std::string_view wanted, size_t from = 0);
size_t rfind_text(Run& run, std::string_view text, std::string_view wanted);

}  // namespace millrace::jinja
