#include "cli/check_build.hpp"

#include <string>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(CheckBuild, MarksTheLibrariesThatLoad) {
  const auto text =
      check_build_text([](const char* soname) { return std::string(soname) == "libpmix.so.2"; });
  EXPECT_THAT(text, StartsWith("hvdrun " HVD_TEST_VERSION "\n"));
  EXPECT_THAT(text, HasSubstr("    [X] PMIx\n"));
  EXPECT_THAT(text, HasSubstr("    [X] libpmix.so.2 "));
  EXPECT_THAT(text, HasSubstr("    [ ] libnvidia-ml.so.1 "));
  EXPECT_THAT(text, HasSubstr("    [ ] libnccl.so.2 "));
  EXPECT_THAT(text, HasSubstr("    [X] TCP, between hosts\n"));
  EXPECT_THAT(text, HasSubstr("    [ ] NCCL, between GPUs\n"));
}

TEST(CheckBuild, SaysWhichGpusTheKernelsSupportOrWhyThereAreNone) {
  const auto nothing_opens = [](const char*) { return false; };
  EXPECT_THAT(
      check_build_text(nothing_opens, {.there = true, .about = "for compute capability 9.0"}),
      HasSubstr("    [X] CUDA kernels of libhvd's own: for compute capability 9.0\n"));
  EXPECT_THAT(
      check_build_text(nothing_opens, {.there = false, .about = "libhvd was built without nvcc"}),
      HasSubstr("    [ ] CUDA kernels of libhvd's own: libhvd was built without nvcc\n"));
}

TEST(CheckBuild, UsesTheDynamicLoaderByDefault) {
  EXPECT_TRUE(library_opens("libc.so.6"));
  EXPECT_FALSE(library_opens("libhvdrun-nosuch.so.99"));
  EXPECT_THAT(check_build_text(), HasSubstr("libcuda.so.1"));
}

}  // namespace
}  // namespace hvdrun
