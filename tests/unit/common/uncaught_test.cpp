#include "common/uncaught.hpp"

#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <sys/prctl.h>

namespace common {
namespace {

TEST(Uncaught, SaysWhatTheProcessEndedOf) {
  const auto end = [] {
    ::prctl(PR_SET_NAME, "some-program");
    report_uncaught(125);
    std::thread([] { throw std::runtime_error("the sky fell"); }).join();
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(125),
              "hvdrun: error: .*: some-program has a fault: the sky fell; please report it");
}

}  // namespace
}  // namespace common
