#include "base/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hvdrun {

Result<SharedLibrary> SharedLibrary::open(const std::string& soname) {
  void* const handle = ::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(::dlerror());
  return SharedLibrary(soname, handle);
}

Result<void*> SharedLibrary::address_of(const char* name) const {
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr) return fail(fmt::format("{} has no {}", soname_, name));
  return address;
}

}  // namespace hvdrun
