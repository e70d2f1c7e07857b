#include "bootstrap/pmix_client_library.hpp"

#include "common/bundled_library.hpp"

#include <string>

namespace libhvd {
namespace {

constexpr const char* kSoname = "libpmix.so.2";

}  // namespace

Result<PmixLibrary> PmixLibrary::load() {
  const auto opened = open_pmix();
  if (!opened) {
    return fail(HVD_ERROR_UNSUPPORTED,
                "a PMIx launcher has started this process, but libpmix cannot be opened: " +
                    opened.error() +
                    "; install it here (libpmix2), or start the job with hvdrun --pmix off");
  }
  PmixLibrary library;
#define HVD_PMIX_LOAD(name)               \
  if (!opened->find(#name, library.name)) \
    return fail(HVD_ERROR_UNSUPPORTED, std::string(kSoname) + " has no " #name);
  HVD_PMIX_SYMBOLS(HVD_PMIX_LOAD)
#undef HVD_PMIX_LOAD
  return library;
}

}  // namespace libhvd
