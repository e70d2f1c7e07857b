#include "common/bundled_library.hpp"

#include <gtest/gtest.h>

namespace common {
namespace {

TEST(PmixIsAtLeast, ComparesNumerically) {
  EXPECT_TRUE(pmix_is_at_least("OpenPMIx 4.2.2 (PMIx Standard: 4.1, Stable ABI: 0.0)", "4.2.2"));
  EXPECT_TRUE(pmix_is_at_least("OpenPMIx 4.2.10", "4.2.9"));
  EXPECT_TRUE(pmix_is_at_least("OpenPMIx 5.0.1rc1", "4.2.9"));
  EXPECT_FALSE(pmix_is_at_least("PMIx 3.2.5", "4.2.2"));
  EXPECT_FALSE(pmix_is_at_least("OpenPMIx 4.2.1", "4.2.2"));
}

TEST(PmixIsAtLeast, TextWithoutAVersionIsOld) {
  EXPECT_FALSE(pmix_is_at_least("", "4.2.2"));
  EXPECT_FALSE(pmix_is_at_least("OpenPMIx", "4.2.2"));
}

// This build is not in a wheel.
TEST(OpenOwnOrBundled, ErrorNamesTheMissingLibrary) {
  const auto opened = open_own_or_bundled("libhvd_no_such_library.so.9");
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().find("libhvd_no_such_library.so.9"), std::string::npos);
}

}  // namespace
}  // namespace common
