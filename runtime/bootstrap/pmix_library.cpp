#include "bootstrap/pmix_library.hpp"

#include <dlfcn.h>

namespace libhvd {
namespace {

constexpr const char* kSoname = "libpmix.so.2";

}  // namespace

Result<PmixLibrary> PmixLibrary::load() {
  void* handle = ::dlopen(kSoname, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return fail(HVD_ERROR_UNSUPPORTED,
                std::string("a PMIx launcher has started this process, but libpmix cannot be "
                            "opened: ") +
                    ::dlerror());
  }
  PmixLibrary library;
#define HVD_PMIX_LOAD(name)                                                      \
  library.name = reinterpret_cast<decltype(&::name)>(::dlsym(handle, #name));    \
  if (library.name == nullptr) {                                                 \
    return fail(HVD_ERROR_UNSUPPORTED, std::string(kSoname) + " has no " #name); \
  }
  HVD_PMIX_SYMBOLS(HVD_PMIX_LOAD)
#undef HVD_PMIX_LOAD
  return library;
}

}  // namespace libhvd
