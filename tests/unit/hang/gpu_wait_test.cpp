// Threads that wait for their GPU, by their stacks.
#include "hang/gpu_wait.hpp"

#include "hang/looks.hpp"
#include "hang/rank_place.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr auto kDriver = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05";

std::optional<std::string> wait_in(std::vector<LookFrame> stack, bool moves) {
  auto look = computing(std::move(stack));
  look.threads[0].movement->frame_moved = moves;
  return find_gpu_wait(look.threads[0], look.program);
}

TEST(GpuWait, IsNamedByTheOutermostFunction) {
  const auto place = place_of(on_gpu("cudaStreamSynchronize", 88));
  EXPECT_EQ(place.doing, Doing::waits_for_gpu);
  EXPECT_EQ(place.state, "waiting for the GPU (cudaStreamSynchronize)");
  EXPECT_EQ(place.where, "train.py:88 step()");
  EXPECT_EQ(wait_in({native_frame("?", kDriver), native_frame("cuMemcpyDtoH_v2", kDriver)}, true),
            "cuMemcpyDtoH_v2");
  EXPECT_EQ(wait_in({native_frame("hipDeviceSynchronize", "/opt/rocm/lib/libamdhip64.so.6")}, true),
            "hipDeviceSynchronize");
}

TEST(GpuWait, OtherFunctionsWaitOnlyIfTheyStay) {
  const std::vector<LookFrame> launch{native_frame("?", kDriver),
                                      native_frame("cudaLaunchKernel", "/usr/lib/libcudart.so.13")};
  EXPECT_EQ(wait_in(launch, false), "cudaLaunchKernel") << "the queue is full";
  EXPECT_FALSE(wait_in(launch, true));
  const std::vector<LookFrame> copy{native_frame("cudaMemcpyAsync", "/usr/lib/libcudart.so.13")};
  EXPECT_FALSE(wait_in(copy, true));
  const std::vector<LookFrame> unknown{native_frame("?", kDriver), native_frame("xla::Run()")};
  EXPECT_EQ(wait_in(unknown, false), "");
  EXPECT_FALSE(wait_in(unknown, true));
}

TEST(GpuWait, AThreadThatTheLibraryCallsDoesNotWait) {
  EXPECT_FALSE(wait_in({native_frame("usleep"), native_frame("callback", "/home/u/solver.so"),
                        native_frame("?", kDriver)},
                       false));
  EXPECT_FALSE(wait_in({native_frame("cumulate", "/home/u/solver.so")}, false));
  EXPECT_FALSE(wait_in({}, false));
}

}  // namespace
}  // namespace hvdrun
