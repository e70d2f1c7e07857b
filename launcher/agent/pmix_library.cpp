#include "agent/pmix_library.hpp"

#include "common/bundled_library.hpp"

namespace hvdrun {

Result<PmixLibrary> PmixLibrary::open() {
  const auto opened = open_pmix();
  if (!opened)
    return fail("PMIx is not here (" + opened.error() +
                "); install libpmix2, or use --pmix off for programs that need no PMIx");
  PmixLibrary library;
#define HVDRUN_PMIX_LOAD(name)            \
  if (!opened->find(#name, library.name)) \
    return fail("libpmix.so.2 has no " #name "; hvdrun needs PMIx 4.2 or newer");
  HVDRUN_PMIX_SYMBOLS(HVDRUN_PMIX_LOAD)
#undef HVDRUN_PMIX_LOAD
  return library;
}

bool has_thread_that_accepts(std::string_view version) {
  using common::pmix_is_at_least;
  if (pmix_is_at_least(version, "5.0.0")) return !pmix_is_at_least(version, "5.0.1");
  return !pmix_is_at_least(version, "4.2.6");
}

}  // namespace hvdrun
