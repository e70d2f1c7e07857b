// libpmix, opened at run time: the runtime is built and runs without it, and loads it only where a
// PMIx launcher has started the process.
#pragma once

#include "base/result.hpp"

#include <pmix.h>

namespace libhvd {

// Every function that we call. pmix.h declares them; here is the one list.
#define HVD_PMIX_SYMBOLS(X) \
  X(PMIx_Init)              \
  X(PMIx_Finalize)          \
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

  // Opens libpmix.so.2 (what the process already has, if it has). It is never closed: its threads
  // and exit handlers do not survive that. HVD_ERROR_UNSUPPORTED: it is not there, or is too old.
  static Result<PmixLibrary> load();
};

}  // namespace libhvd
