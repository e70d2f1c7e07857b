#include "common/net/openssl_library.hpp"

#include "common/bundled_library.hpp"

namespace common {

Result<OpensslLibrary, std::string> OpensslLibrary::load(const char* soname) {
  const auto refuse = [](const std::string& why) {
    return "OpenSSL 3 is needed, package libssl3 or openssl-libs (" + why + ")";
  };
  const auto library = open_own_or_bundled(soname);
  if (!library) return refuse(library.error());
  OpensslLibrary opened;
#define HVD_OPENSSL_LOAD(name, result, parameters) \
  if (!library->find(#name, opened.name)) return refuse(std::string(soname) + " has no " #name);
  HVD_OPENSSL_FUNCTIONS(HVD_OPENSSL_LOAD)
#undef HVD_OPENSSL_LOAD
  return opened;
}

}  // namespace common
