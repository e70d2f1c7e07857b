#include "remote/tls_library.hpp"

#include "base/shared_library.hpp"

namespace hvdrun {
namespace {

Result<TlsLibrary> load() {
  HVD_TRY(const auto opened, SharedLibrary::open("libssl.so.3"));
  TlsLibrary library;
#define HVDRUN_TLS_LOAD(name) HVD_CHECK(opened.find(#name, library.name));
  HVDRUN_TLS_SYMBOLS(HVDRUN_TLS_LOAD)
#undef HVDRUN_TLS_LOAD
  return library;
}

const Result<TlsLibrary>& the_library() {
  static const Result<TlsLibrary> library = load();
  return library;
}

}  // namespace

Result<void> open_openssl() {
  if (!the_library()) return tl::unexpected(the_library().error());
  return {};
}

const TlsLibrary& openssl() {
  return *the_library();
}

}  // namespace hvdrun
