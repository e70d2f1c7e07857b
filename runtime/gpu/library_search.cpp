#include "gpu/library_search.hpp"

#include <string>

#include <dlfcn.h>

namespace libhvd {
namespace {

Result<void*> open_named(const std::string& name, const char* variable) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return fail(HVD_ERROR_UNSUPPORTED, std::string(variable) + " cannot be opened: " + ::dlerror());
}

}  // namespace

Result<void*> open_library(const Environment& environment, const char* variable,
                           std::span<const char* const> sonames) {
  const auto named = environment(variable);
  if (named && !named->empty()) return open_named(*named, variable);
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* soname : sonames) {
      if (void* const library = ::dlopen(soname, flags)) return library;
    }
  }
  const char* const last = ::dlerror();
  return fail(HVD_ERROR_UNSUPPORTED,
              std::string(sonames.front()) + " cannot be opened (" + variable +
                  " may name another): " + (last != nullptr ? last : "it is not there"));
}

Result<void*> find_function(void* library, const char* name) {
  if (void* const function = ::dlsym(library, name)) return function;
  return fail(HVD_ERROR_UNSUPPORTED, std::string("the library has no ") + name + "; it is too old");
}

}  // namespace libhvd
