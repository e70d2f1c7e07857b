#include "hang/collective_calls.hpp"

#include "hang/looks.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(CollectiveCalls, TheOutermostFunctionThatUsersCallIsTheCollective) {
  const auto call = find_collective(in_torch("all_reduce", 88).threads[0].stack);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->function, "all_reduce");
  EXPECT_FALSE(call->pairwise);
}

TEST(CollectiveCalls, MpiIsNamedAsUsersCallIt) {
  const auto call = find_collective({native_frame("poll"),
                                     native_frame("opal_progress", "/usr/lib/libopen-pal.so"),
                                     native_frame("PMPI_Allreduce", "/usr/lib/libmpi.so.40"),
                                     native_frame("main", "/home/u/solver")});
  ASSERT_TRUE(call);
  EXPECT_EQ(call->function, "MPI_Allreduce");
  EXPECT_EQ(call->frame, 2u);
}

TEST(CollectiveCalls, SendAndRecvConcernOneOtherRank) {
  EXPECT_TRUE(find_collective(in_torch("recv", 5).threads[0].stack)->pairwise);
  EXPECT_TRUE(find_collective({native_frame("PMPI_Recv", "/usr/lib/libmpi.so.40")})->pairwise);
}

TEST(CollectiveCalls, ThreadsThatLibrariesKeepAreInNone) {
  EXPECT_FALSE(find_collective(
      {native_frame("pthread_cond_wait"),
       native_frame("c10d::ProcessGroupGloo::runLoop(int)", "/usr/lib/libtorch_cpu.so")}));
  EXPECT_FALSE(find_collective(in_loader().threads[0].stack));
}

TEST(CollectiveCalls, TheBackwardPassIsOneOnlyWhileItCommunicates) {
  const auto backward =
      python_frame("Tensor.backward", "/usr/lib/python3/dist-packages/torch/_tensor.py", 488);
  EXPECT_FALSE(find_collective({native_frame("at::matmul", "/usr/lib/libtorch_cpu.so"), backward}));
  const auto call = find_collective(
      {native_frame("c10d::Reducer::finalize_backward()", "/usr/lib/libtorch_cpu.so"), backward});
  ASSERT_TRUE(call);
  EXPECT_EQ(call->function, "backward");
}

TEST(CollectiveCalls, FunctionsOfPackagesAndOfTheSystemAreNotTheUsers) {
  EXPECT_FALSE(is_users(python_frame("all_reduce", kTorch, 1), "/usr/bin/python3"));
  EXPECT_FALSE(
      is_users(python_frame("get", "/usr/lib/python3.11/queue.py", 1), "/usr/bin/python3"));
  EXPECT_FALSE(is_users(native_frame("read"), "/home/u/a.out"));
  auto inlined = native_frame("take_second()", "/home/u/a.out");
  for (const auto* const header :
       {"/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h",
        "/opt/gcc/include/c++/14/atomic", "/usr/lib/gcc/x86_64-linux-gnu/12/include/emmintrin.h"}) {
    inlined.file = header;
    EXPECT_FALSE(is_users(inlined, "/home/u/a.out")) << header;
  }
  inlined.file = "/home/u/include/queue.hpp";
  EXPECT_TRUE(is_users(inlined, "/home/u/a.out"));
  EXPECT_TRUE(is_users(python_frame("main", "/home/u/train.py", 1), "/usr/bin/python3"));
  EXPECT_TRUE(is_users(native_frame("main", "/home/u/a.out"), "/home/u/a.out"));
}

}  // namespace
}  // namespace hvdrun
