#include "cuda/native/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace millrace::cuda {

Result<SharedLibrary> SharedLibrary::open(std::initializer_list<const char*> names) {
  std::string reason;
  for (const char* name : names) {
    if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary(handle, name);
    }
    if (reason.empty()) reason = ::dlerror();
  }
  return not_found(reason);
}

Result<void*> SharedLibrary::address_of(const char* name) const {
  if (void* const address = ::dlsym(handle_, name)) return address;
  return not_found(fmt::format("{} has no function {}", name_, name));
}

}  // namespace millrace::cuda
