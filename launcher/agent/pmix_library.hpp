// libpmix, opened at run time: hvdrun starts quickly and runs without it where --pmix off says so.
#pragma once

#include "base/result.hpp"

#include <string>

#include <pmix.h>
#include <pmix_server.h>

// The functions that the agent calls; X(name).
#define HVDRUN_PMIX_SYMBOLS(X)   \
  X(PMIx_server_init)            \
  X(PMIx_server_register_nspace) \
  X(PMIx_server_register_client) \
  X(PMIx_server_setup_fork)      \
  X(PMIx_server_dmodex_request)  \
  X(PMIx_generate_regex)         \
  X(PMIx_generate_ppn)           \
  X(PMIx_Error_string)           \
  X(PMIx_Get_version)

namespace hvdrun {

// The symbols of one opened libpmix. Never closed: its threads live as long as the process.
struct PmixLibrary {
#define HVDRUN_PMIX_MEMBER(name) decltype(&::name) name = nullptr;
  HVDRUN_PMIX_SYMBOLS(HVDRUN_PMIX_MEMBER)
#undef HVDRUN_PMIX_MEMBER

  // Opens libpmix.so.2. Error: not installed, or too old; says which package to install.
  static Result<PmixLibrary> open();
};

}  // namespace hvdrun
