#include "agent/gloo_interface.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(GlooInterface, DetectsAHostNameThatDebianMapsToLoopback) {
  const auto* const debian = "127.0.0.1\tlocalhost\n127.0.1.1\tn1.example.org n1 # the installer\n";
  EXPECT_TRUE(has_loopback_name(debian, "n1"));
  EXPECT_TRUE(has_loopback_name(debian, "n1.example.org"));
  EXPECT_FALSE(has_loopback_name(debian, "installer"));
  EXPECT_FALSE(has_loopback_name(debian, "n"));
  EXPECT_TRUE(has_loopback_name("10.0.0.1 n1\n::1 n1", "n1")) << "loopback is tried first";
  EXPECT_FALSE(has_loopback_name("10.0.0.1 n1\n#127.0.1.1 n1\n\n", "n1"));
  EXPECT_FALSE(has_loopback_name("fd80::1 n1\nnonsense n1\n", "n1"));
  EXPECT_FALSE(has_loopback_name("", "n1"));
}

}  // namespace
}  // namespace hvdrun
