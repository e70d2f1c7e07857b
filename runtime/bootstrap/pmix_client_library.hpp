// libpmix, opened at run time. The runtime is built and runs without the library, and opens it only
// if a PMIx launcher has started the process. load() for any thread.
#pragma once

#include "base/error.hpp"

#include <pmix.h>

namespace libhvd {

// All functions of libpmix that the runtime calls. pmix.h declares them.
#define HVD_PMIX_SYMBOLS(X) \
  X(PMIx_Init)              \
  X(PMIx_Finalize)          \
  X(PMIx_Get_version)       \
  X(PMIx_Get)               \
  X(PMIx_Put)               \
  X(PMIx_Commit)            \
  X(PMIx_Fence_nb)          \
  X(PMIx_Info_load)         \
  X(PMIx_Value_destruct)    \
  X(PMIx_Error_string)

struct PmixLibrary {
#define HVD_PMIX_MEMBER(name) decltype(&::name) name = nullptr;
  HVD_PMIX_SYMBOLS(HVD_PMIX_MEMBER)
#undef HVD_PMIX_MEMBER

  // Opens libpmix.so.2, or takes the one that is already open in this process. It is never closed,
  // because its threads and exit handlers do not survive that. Error (HVD_ERROR_UNSUPPORTED): the
  // library is missing or too old.
  static Result<PmixLibrary> load();
};

}  // namespace libhvd
