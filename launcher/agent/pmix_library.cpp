#include "agent/pmix_library.hpp"

#include <dlfcn.h>

namespace hvdrun {

Result<PmixLibrary> PmixLibrary::open() {
  void* handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(std::string("PMIx is not here (") + ::dlerror() +
                "); install libpmix2, or use --pmix off for programs that need no PMIx");
  PmixLibrary library;
#define HVDRUN_PMIX_LOAD(name)                                                     \
  library.name = reinterpret_cast<decltype(library.name)>(::dlsym(handle, #name)); \
  if (library.name == nullptr)                                                     \
    return fail("libpmix.so.2 has no " #name "; hvdrun needs PMIx 4.2 or newer");
  HVDRUN_PMIX_SYMBOLS(HVDRUN_PMIX_LOAD)
#undef HVDRUN_PMIX_LOAD
  return library;
}

}  // namespace hvdrun
