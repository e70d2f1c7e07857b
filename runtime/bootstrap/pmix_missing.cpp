// Replaces pmix_bootstrap.cpp and pmix_client_library.cpp where the build had no headers of PMIx.
#include "bootstrap/bootstrap.hpp"

namespace libhvd {

Result<std::unique_ptr<Bootstrap>> open_pmix_bootstrap(const Environment&,
                                                       const BootstrapOptions&) {
  return fail(HVD_ERROR_UNSUPPORTED,
              "a PMIx launcher has started this process (PMIX_NAMESPACE is set), but this libhvd "
              "was built without the headers of PMIx. Build it with them (libpmix-dev), or start "
              "the program with hvdrun --pmix off");
}

bool leaves_pmix_to_mpi(const Environment&) {
  return false;
}

}  // namespace libhvd
