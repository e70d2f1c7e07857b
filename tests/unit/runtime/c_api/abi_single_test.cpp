// The C ABI and the C++ API over it, in a job of one rank. Each test runs in a process of its own.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/agree.hpp>
#include <hvd/hvd.hpp>

extern "C" int use_the_header_from_c(void);

namespace {

class SingleRank : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"PMIX_NAMESPACE", "HVD_RANK", "HVD_SIZE", "RANK", "WORLD_SIZE",
                             "HVD_STATUS", "HVD_LOCAL_DEVICE", "CUDA_VISIBLE_DEVICES"}) {
      ::unsetenv(name);
    }
  }
};

TEST_F(SingleRank, IsRank0OfSize1) {
  hvd::init();
  EXPECT_TRUE(hvd::initialized());
  EXPECT_EQ(hvd::rank(), 0);
  EXPECT_EQ(hvd::size(), 1);
  EXPECT_EQ(hvd::local_rank(), 0);
  EXPECT_EQ(hvd::local_size(), 1);
  EXPECT_EQ(hvd::cross_rank(), 0);
  EXPECT_EQ(hvd::cross_size(), 1);
  EXPECT_EQ(hvd::node_rank(), 0);
  EXPECT_EQ(hvd::node_count(), 1);
  EXPECT_TRUE(hvd::is_homogeneous());
  EXPECT_EQ(&hvd::root_out(), &std::cout);
  hvd::shutdown();
  EXPECT_FALSE(hvd::initialized());
}

TEST_F(SingleRank, ReadsItsLocalDeviceFromTheEnvironment) {
  EXPECT_EQ(hvd_local_device(), -HVD_ERROR_NOT_INITIALIZED);
  ::setenv("HVD_LOCAL_DEVICE", "3", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3", 1);
  hvd::init();
  EXPECT_EQ(hvd_local_device(), 3);
  EXPECT_EQ(hvd::local_device(), 3);
  EXPECT_EQ(hvd::local_rank(), 0);
  hvd::shutdown();
  ::setenv("HVD_LOCAL_DEVICE", "cuda:3", 1);
  EXPECT_EQ(hvd_init(), HVD_ERROR_ENVIRONMENT);
}

// Deprecated names, for one version.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST_F(SingleRank, DeprecatedNamesWork) {
  hvd::init();
  EXPECT_EQ(&hvd::rank0(), &std::cout);
  EXPECT_EQ(hvd::ProcessSet::numbered(3).id(), 3);
  EXPECT_EQ(hvd::ProcessSet::from_id(3).number(), 3);
  EXPECT_EQ(hvd::agree_stop(1, {.wish = true}).reasons(), HVD_STOP_WISH);
  hvd::shutdown();
}
#pragma GCC diagnostic pop

TEST_F(SingleRank, AgreeStopReportsARequestedStop) {
  hvd::init();
  EXPECT_EQ(hvd::agree_stop(1, {.requested = true}).reasons(), HVD_STOP_REQUESTED);
  EXPECT_FALSE(hvd::agree_stop(1, {.seconds_needed = 1}));
  hvd::shutdown();
}

TEST_F(SingleRank, AllCollectivesWork) {
  hvd::init();
  std::vector<float> values{1, 2, 3};
  hvd::allreduce(std::span(values), hvd::Op::average, "values");
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
  std::vector<float> output(3);
  hvd::allreduce(std::span<const float>(values), std::span(output), hvd::Op::sum);
  EXPECT_EQ(output, values);
  EXPECT_EQ(hvd::allreduce(std::int64_t{5}, hvd::Op::max), 5);
  hvd::broadcast(std::span(values), 0);
  EXPECT_EQ(hvd::allgather(std::span(values)), values);
  EXPECT_EQ(hvd::reducescatter(std::span(values), hvd::Op::sum), values);
  const std::vector<std::size_t> splits{3};
  EXPECT_EQ(hvd::alltoall(std::span(values), splits), values);
  hvd::Future<> future = hvd::allreduce_async(std::span(values), hvd::Op::sum, "values");
  future.wait();
  future = hvd::broadcast_async(std::span(values), 0);
  while (!future.done()) std::this_thread::yield();
  EXPECT_EQ(output, values);
  hvd_options twice{};
  twice.struct_size = sizeof twice;
  twice.prescale = 2;
  EXPECT_EQ(hvd_allreduce(values.data(), output.data(), 3, HVD_FLOAT32, HVD_SUM, &twice), HVD_OK);
  EXPECT_EQ(output, (std::vector<float>{2, 4, 6}));
  hvd::barrier("end");
  hvd::shutdown();
}

TEST_F(SingleRank, BuffersOutliveTheSession) {
  hvd::init();
  hvd::Buffer<float> buffer(1000);
  EXPECT_EQ(buffer[999], 0);
  buffer[999] = 5;
  hvd::allreduce(buffer.span(), hvd::Op::sum);
  hvd::shutdown();
  EXPECT_EQ(buffer[999], 5);
  hvd::init();
  hvd::allreduce(buffer.span(), hvd::Op::sum);
  EXPECT_EQ(buffer[999], 5);
  hvd::shutdown();
}

TEST_F(SingleRank, BuffersHoldAlignedTensors) {
  hvd::init();
  const std::vector<std::size_t> sizes{3, 0, 16, 5};
  hvd::Buffers<float> gradients(sizes);
  ASSERT_EQ(gradients.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(gradients[i].size(), sizes[i]);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(gradients[i].data()) % 64, 0u);
    std::fill(gradients[i].begin(), gradients[i].end(), static_cast<float>(i));
  }
  const hvd::Buffers<float> moved = std::move(gradients);
  for (const auto& gradient : moved) hvd::allreduce(gradient, hvd::Op::sum);
  hvd::allreduce(moved.together(), hvd::Op::sum);
  EXPECT_EQ(std::accumulate(moved.together().begin(), moved.together().end(), 0.0f),
            16 * 2.0f + 5 * 3.0f);
  EXPECT_TRUE(hvd::Buffers<double>(std::vector<std::size_t>()).together().empty());
  hvd::shutdown();
}

TEST_F(SingleRank, InvalidBuffersFail) {
  void* memory = nullptr;
  EXPECT_EQ(hvd_alloc(100, &memory), HVD_ERROR_NOT_INITIALIZED);
  hvd::init();
  EXPECT_EQ(hvd_alloc(0, &memory), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_alloc(100, nullptr), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_alloc(SIZE_MAX, &memory), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_free(nullptr), HVD_OK);
  EXPECT_EQ(hvd_alloc(100, &memory), HVD_OK);
  EXPECT_EQ(hvd_register(memory, 4096), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_unregister(memory), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_free(memory), HVD_OK);
  EXPECT_EQ(hvd_free(memory), HVD_ERROR_INVALID_ARGUMENT);
  hvd::shutdown();
}

TEST_F(SingleRank, Runs100Sessions) {
  for (int round = 0; round < 100; ++round) {
    hvd::init();
    EXPECT_EQ(hvd::allreduce(round, hvd::Op::sum), round);
    hvd::shutdown();
  }
}

TEST_F(SingleRank, CallsBeforeInitAndAfterShutdownFail) {
  for (int round = 0; round < 2; ++round) {
    float value = 0;
    EXPECT_EQ(hvd_rank(), -HVD_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(hvd_size(), -HVD_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(hvd_shutdown(), HVD_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(hvd_set_step(1), HVD_OK);
    EXPECT_EQ(hvd_notice(nullptr, nullptr), HVD_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(hvd_report_failure(nullptr), HVD_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(hvd_report_failure("why"), HVD_ERROR_UNSUPPORTED);
    EXPECT_FALSE(hvd::report_failure("why"));
    EXPECT_EQ(hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr),
              HVD_ERROR_NOT_INITIALIZED);
    EXPECT_STREQ(hvd_last_error(), "hvd_allreduce: called before hvd_init or after hvd_shutdown");
    hvd::init();
    EXPECT_EQ(hvd_init(), HVD_ERROR_INVALID_ARGUMENT);
    hvd::shutdown();
  }
}

TEST_F(SingleRank, ExceptionsCarryStatusAndText) {
  hvd::init();
  double values[2] = {};
  try {
    hvd::broadcast(std::span(values), 1, "w");
    FAIL() << "no exception";
  } catch (const hvd::Error& error) {
    EXPECT_EQ(error.status(), HVD_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error.what(), "broadcast \"w\": rank 0: the root 1 is not a rank of 0 to 0");
  }
  hvd::shutdown();
}

// Options grow at their end: a shorter struct is fine, unknown zeros are fine, the rest is refused.
TEST_F(SingleRank, AcceptsOptionsOfOtherVersionsWithoutUnknownFields) {
  hvd::init();
  struct Longer {
    hvd_options known;
    void* later;
  } longer{};
  longer.known.struct_size = sizeof longer;
  longer.known.name = "x";
  EXPECT_EQ(hvd_barrier(&longer.known), HVD_OK);
  longer.later = &longer;
  EXPECT_EQ(hvd_barrier(&longer.known), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(hvd_last_error(), "what this version of libhvd cannot do"), nullptr);
  const hvd_options unset{};
  EXPECT_EQ(hvd_barrier(&unset), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(hvd_last_error(), "struct_size is 0"), nullptr);
  hvd::shutdown();
}

TEST_F(SingleRank, SeveralThreadsMayCall) {
  hvd::init();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(hvd::allreduce(thread * 1000 + i, hvd::Op::sum), thread * 1000 + i);
        EXPECT_EQ(hvd::rank(), 0);
        hvd::set_step(static_cast<std::uint64_t>(i));
        hvd::allreduce(1.0f, static_cast<hvd::Op>(hvd_op{i % 2 == 0 ? HVD_SUM : HVD_MAX}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  hvd::shutdown();
}

TEST_F(SingleRank, WithoutALauncherThereAreNoNotices) {
  hvd::init();
  EXPECT_EQ(hvd::notice(), 0u);
  EXPECT_TRUE(std::isinf(hvd::time_left()));
  hvd::shutdown();
}

TEST_F(SingleRank, ProgressRefusesInvalidValues) {
  hvd::init();
  const auto message = [](const hvd::Progress& now) -> std::string {
    try {
      hvd::progress(now);
    } catch (const hvd::Error& error) {
      EXPECT_EQ(error.status(), HVD_ERROR_INVALID_ARGUMENT);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({.step = -1}), "hvd_progress: step is -1; it must not be negative");
  EXPECT_EQ(message({.steps = -2}), "hvd_progress: steps is -2; it must not be negative");
  EXPECT_EQ(message({.samples = -3}), "hvd_progress: samples is -3; it must not be negative");
  EXPECT_EQ(message({.epoch = -4}), "hvd_progress: epoch is -4; it must not be negative");
  EXPECT_EQ(message({.epochs = -5}), "hvd_progress: epochs is -5; it must not be negative");
  EXPECT_EQ(message({.step = 7, .steps = 5}), "hvd_progress: step is 7, but steps is only 5");
  EXPECT_EQ(message({.epoch = 3, .epochs = 2}), "hvd_progress: epoch is 3, but epochs is only 2");
  EXPECT_EQ(message({.step = 7, .steps = 7, .epoch = 2, .epochs = 2, .loss = NAN}), "");
  EXPECT_EQ(message({}), "");

  EXPECT_EQ(hvd_progress(nullptr), HVD_ERROR_INVALID_ARGUMENT);
  hvd_progress_values values{};
  EXPECT_EQ(hvd_progress(&values), HVD_ERROR_INVALID_ARGUMENT) << "no struct_size";
  values.struct_size = sizeof values;
  values.step = -1;
  EXPECT_EQ(hvd_progress(&values), HVD_OK) << "a field that is not known does not matter";
  values.known = 0x40;
  EXPECT_EQ(hvd_progress(&values), HVD_ERROR_INVALID_ARGUMENT);
  hvd::shutdown();
}

TEST_F(SingleRank, RestartCountAddsThoseOfLauncherAndSlurm) {
  struct Case {
    const char* hvdrun;
    const char* torchrun;
    const char* slurm;
    int count;
  };
  for (const Case& given : {Case{"", "", "", 0}, Case{"2", "5", "", 2}, Case{"", "5", "", 5},
                            Case{"2", "", "3", 5}, Case{"0", "", "nonsense", 0}}) {
    ::setenv("HVD_RESTART_COUNT", given.hvdrun, 1);
    ::setenv("TORCHELASTIC_RESTART_COUNT", given.torchrun, 1);
    ::setenv("SLURM_RESTART_COUNT", given.slurm, 1);
    hvd::init();
    EXPECT_EQ(hvd::restart_count(), given.count);
    hvd::shutdown();
  }
}

TEST_F(SingleRank, HeaderCompilesAsC11) {
  EXPECT_EQ(use_the_header_from_c(), 0);
}

TEST(StatusString, IsDifferentForEachStatus) {
  std::set<std::string> texts;
  for (hvd_status status = HVD_OK; status <= HVD_ERROR_REMOVED; ++status) {
    EXPECT_STRNE(hvd_status_string(status), "unknown status") << status;
    texts.insert(hvd_status_string(status));
  }
  EXPECT_EQ(texts.size(), HVD_ERROR_REMOVED + 1u);
  for (const hvd_status status : {-1, HVD_ERROR_REMOVED + 1, INT32_MAX, INT32_MIN})
    EXPECT_STREQ(hvd_status_string(status), "unknown status");
  EXPECT_STREQ(hvd::status_string(HVD_ERROR_MISMATCH), "the ranks made calls that differ");
}

TEST(StatusString, IsTheTextOfAnErrorWithoutAMessage) {
  std::thread([] {  // a thread without a last error
    try {
      hvd::detail::check(HVD_ERROR_PEER);
      ADD_FAILURE() << "no exception";
    } catch (const hvd::Error& error) {
      EXPECT_STREQ(error.what(), "a rank died or left");
    }
  })
      .join();
}

TEST_F(SingleRank, ReturnsItsVersion) {
  EXPECT_EQ(hvd_version(), std::string("0.1.0"));
}

TEST_F(SingleRank, HasKernelsNamesTheGpusOrWhyThereAreNone) {
  const char* about = nullptr;
  const int has_kernels = hvd_has_kernels(&about);
  EXPECT_EQ(hvd_has_kernels(nullptr), has_kernels);
  ASSERT_NE(about, nullptr);
  const char* const known = has_kernels == 1 ? "for compute capability " : "nvcc";
  EXPECT_NE(std::string(about).find(known), std::string::npos) << about;
}

}  // namespace
