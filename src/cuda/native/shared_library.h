// A library that is looked for when the program runs, so that machines without it need none.
#pragma once

#include <initializer_list>
#include <string>

#include "base/result.h"

namespace millrace::cuda {

// Never closed: what it has started on a device lives as long as the process.
class SharedLibrary {
 public:
  // The first of `names` that can be loaded: as dlopen() looks for them, or a path. kNotFound, with
  // what the loader says of the first.
  static Result<SharedLibrary> open(std::initializer_list<const char*> names);

  // Sets `function` to the library's function of that name. kNotFound: an older library.
  template <class Function>
  Result<void> find(const char* name, Function*& function) const {
    const Result<void*> address = address_of(name);
    if (!address) return address.error();
    function = reinterpret_cast<Function*>(*address);
    return {};
  }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  Result<void*> address_of(const char* name) const;

  void* handle_;
  std::string name_;
};

}  // namespace millrace::cuda
