#include "base/text.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

const std::vector<std::string_view> kNames = {"-np", "--num-proc", "--hosts", "--verbose",
                                              "--output-filename"};

TEST(NearestName, FindsMistypedNames) {
  EXPECT_EQ(nearest_name("--num-procs", kNames), "--num-proc");
  EXPECT_EQ(nearest_name("--nmu-proc", kNames), "--num-proc");
  EXPECT_EQ(nearest_name("--host", kNames), "--hosts");
  EXPECT_EQ(nearest_name("-n", kNames), "-np");
}

TEST(NearestName, TakesABeginningForTheWhole) {
  EXPECT_EQ(nearest_name("--output", kNames), "--output-filename");
}

TEST(NearestName, HasNoAnswerForWhatIsFar) {
  EXPECT_EQ(nearest_name("--quux", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'n'), kNames), "");
}

}  // namespace
}  // namespace hvdrun
