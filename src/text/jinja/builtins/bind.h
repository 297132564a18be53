// The arguments of a native by position or name, as in a Python signature.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "text/jinja/object.h"
#include "text/jinja/run.h"

namespace millrace::jinja {

// Fails the run for arguments that do not fit; the getters then give defaults. Refers to the
// arguments, so it must not outlive them.
class Bound {
 public:
  // At most six names, of which the first `num_required` must be given.
  Bound(
      Run& run,
      const Arguments& arguments,
      std::string_view function,
      std::initializer_list<std::string_view> names,
      size_t num_required = 0
  );

  // Null when it was not given.
  const Value* at(size_t index) const { return values_[index]; }
  // Null when it was not given or is None.
  const Value* some(size_t index) const;
  Value value(size_t index, Value otherwise) const;
  bool truth(size_t index, bool otherwise) const;
  int64_t integer(size_t index, int64_t otherwise) const;
  // str() of it.
  Text text(size_t index, std::string_view otherwise) const;
  // Fails when it is not a string.
  const Text* string(size_t index) const;

 private:
  Run& run_;
  std::string_view function_;
  std::array<const Value*, 6> values_{};
};

}  // namespace millrace::jinja
