#include "agent/pmix_library.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(PmixLibrary, OlderServersHaveAThreadThatAccepts) {
  for (const auto* version : {"4.2.0", "4.2.2", "OpenPMIx 4.2.5 (PMIx Standard: 4.2)", "5.0.0"})
    EXPECT_TRUE(has_thread_that_accepts(version)) << version;
  for (const auto* version :
       {"4.2.6", "4.2.9", "OpenPMIx 5.0.1 (PMIx Standard: 5.0)", "5.0.10", "6.1.0"})
    EXPECT_FALSE(has_thread_that_accepts(version)) << version;
}

}  // namespace
}  // namespace hvdrun
