// The tables of what templates can use by name. Nullptr: there is no such thing.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/object.h"

namespace millrace::jinja {

struct NamedNative {
  std::string_view name;
  Native native;
};

Native find_filter(std::string_view name);
Native find_test(std::string_view name);
// range, dict, namespace, joiner, cycler, lipsum, raise_exception, strftime_now.
Native find_global(std::string_view name);

Native find_string_method(std::string_view name);
Native find_sequence_method(std::string_view name);  // of lists, tuples and ranges
Native find_dict_method(std::string_view name);
Native find_object_method(Object& object, std::string_view name);

// Parts of the tables, each in the file that implements it.
const std::vector<NamedNative>& text_filters();
const std::vector<NamedNative>& sequence_filters();
const std::vector<NamedNative>& value_filters();
const std::vector<NamedNative>& string_methods();
const std::vector<NamedNative>& string_predicates();

Native find_in(const std::vector<NamedNative>& table, std::string_view name);

}  // namespace millrace::jinja
