#include "common/signal_abbreviation.hpp"

#include <cstring>

#include <gtest/gtest.h>

namespace common {
namespace {

TEST(SignalAbbreviation, IsThatOfTheCLibrary) {
  for (int signal = -1; signal <= 70; ++signal)
    EXPECT_STREQ(signal_abbreviation(signal), ::sigabbrev_np(signal)) << signal;
}

}  // namespace
}  // namespace common
