#include "common/shared_library.hpp"

namespace common {

Result<SharedLibrary, std::string> SharedLibrary::open(const std::string& soname, int flags) {
  void* const handle = ::dlopen(soname.c_str(), flags);
  if (handle != nullptr) return SharedLibrary(handle);
  const char* const why = ::dlerror();
  return std::string(why != nullptr ? why : "it is not there");
}

}  // namespace common
