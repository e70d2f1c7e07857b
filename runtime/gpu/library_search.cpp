#include "gpu/library_search.hpp"

#include <string>

namespace libhvd {
namespace {

Result<SharedLibrary> open_named(const std::string& name, const char* variable) {
  const auto library = SharedLibrary::open(name);
  if (library) return *library;
  return fail(HVD_ERROR_UNSUPPORTED,
              std::string(variable) + " cannot be opened: " + library.error());
}

}  // namespace

Result<SharedLibrary> open_library(const Environment& environment, const char* variable,
                                   std::span<const char* const> sonames) {
  const auto named = environment(variable);
  if (named && !named->empty()) return open_named(*named, variable);
  std::string why;
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* soname : sonames) {
      const auto library = SharedLibrary::open(soname, flags);
      if (library) return *library;
      why = library.error();
    }
  }
  return fail(HVD_ERROR_UNSUPPORTED, std::string(sonames.front()) + " cannot be opened (" +
                                         variable + " may name another): " + why);
}

Error lacks_function(const char* name) {
  return fail(HVD_ERROR_UNSUPPORTED, std::string("the library has no ") + name + "; it is too old");
}

}  // namespace libhvd
