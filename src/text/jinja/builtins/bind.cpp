#include "text/jinja/builtins/bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"

namespace millrace::jinja {

Bound::Bound(
    Run& run,
    const Arguments& arguments,
    std::string_view function,
    std::initializer_list<std::string_view> names,
    size_t num_required
)
    : run_(run), function_(function) {
  CHECK(names.size() <= values_.size(), "a native has too many parameters");
  if (arguments.positional.size() > names.size()) {
    run.fail(fmt::format(
        "{}() takes at most {} arguments ({} given)",
        function,
        names.size(),
        arguments.positional.size()
    ));
    return;
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.keywords) {
    const auto* const found = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<size_t>(found - names.begin());
    if (found == names.end()) {
      run.fail(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    } else if (values_[index] != nullptr) {
      run.fail(fmt::format("{}() got multiple values for argument '{}'", function, name));
    } else {
      values_[index] = &value;
    }
    if (run.failed()) return;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (values_[i] != nullptr) continue;
    run.fail(fmt::format("{}() missing the required argument '{}'", function, *(names.begin() + i))
    );
  }
}

const Value* Bound::some(size_t index) const {
  const Value* value = values_[index];
  return value == nullptr || value->is_none() ? nullptr : value;
}

Value Bound::value(size_t index, Value otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  return *values_[index];
}

bool Bound::truth(size_t index, bool otherwise) const {
  return values_[index] == nullptr ? otherwise : jinja::truth(run_, *values_[index]);
}

int64_t Bound::integer(size_t index, int64_t otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  const std::optional<int64_t> integer = values_[index]->as_int();
  if (!integer) {
    run_.fail(fmt::format(
        "{}(): '{}' object cannot be interpreted as an integer",
        function_,
        type_name(*values_[index])
    ));
  }
  return integer.value_or(otherwise);
}

Text Bound::text(size_t index, std::string_view otherwise) const {
  if (values_[index] == nullptr) return Text(std::string(otherwise));
  return to_text(run_, *values_[index]);
}

const Text* Bound::string(size_t index) const {
  const Text* text = values_[index] == nullptr ? nullptr : values_[index]->text();
  if (text == nullptr && !run_.failed()) {
    const std::string given = values_[index] == nullptr ? "nothing" : type_name(*values_[index]);
    run_.fail(fmt::format("{}() argument {} must be str, not {}", function_, index + 1, given));
  }
  return text;
}

}  // namespace millrace::jinja
