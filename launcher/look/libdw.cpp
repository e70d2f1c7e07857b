#include "look/libdw.hpp"

#include "common/shared_library.hpp"

namespace hvdrun {

Result<Libdw, std::string> Libdw::load() {
  const auto refuse = [](const std::string& why) {
    return "native stacks need elfutils' libdw, package libdw1 or elfutils-libs (" + why + ")";
  };
  const auto library = SharedLibrary::open("libdw.so.1");
  if (!library) return refuse(library.error());
  Libdw opened;
#define HVD_LIBDW_LOAD(name, result, parameters) \
  if (!library->find(#name, opened.name)) return refuse("it has no " #name);
  HVD_LIBDW_FUNCTIONS(HVD_LIBDW_LOAD)
#undef HVD_LIBDW_LOAD
  return opened;
}

}  // namespace hvdrun
