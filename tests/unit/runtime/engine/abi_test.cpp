// The C ABI of async collectives, with ranks as processes.
#include "support.hpp"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <unistd.h>

namespace libhvd::test {
namespace {

hvd_options named(const char* name) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  return options;
}

TEST(AsyncAbi, EveryCollectiveWorksWhenRanksSubmitInOppositeOrders) {
  Job job(2, [](int rank, const Child::Report& report) {
    hvd::init();
    std::vector<float> sum{1, 2}, root{static_cast<float>(rank + 5)},
        rows{static_cast<float>(rank)};
    std::vector<float> all(2), share(1), mixed(2);
    std::array<hvd_handle, 6> handles{};
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const std::size_t kind = rank == 0 ? i : handles.size() - 1 - i;
      const std::string name = "k" + std::to_string(kind);
      const hvd_options options = named(name.c_str());
      hvd_handle* const handle = &handles[kind];
      hvd_status status = HVD_OK;
      if (kind == 0)
        status =
            hvd_allreduce_async(sum.data(), sum.data(), 2, HVD_FLOAT32, HVD_SUM, &options, handle);
      if (kind == 1) status = hvd_broadcast_async(root.data(), 1, HVD_FLOAT32, 1, &options, handle);
      if (kind == 2)
        status = hvd_allgather_async(rows.data(), 1, 1, HVD_FLOAT32, all.data(), 2, nullptr,
                                     &options, handle);
      if (kind == 3)
        status = hvd_reducescatter_async(all.data(), 0, 1, HVD_FLOAT32, HVD_SUM, share.data(),
                                         &options, handle);
      if (kind == 4)
        status = hvd_alltoall_async(sum.data(), nullptr, 0, 1, HVD_FLOAT32, mixed.data(), 2,
                                    nullptr, &options, handle);
      if (kind == 5) status = hvd_barrier_async(&options, handle);
      if (status != HVD_OK) report(text_of(status));
    }
    for (const hvd_handle handle : handles) {
      const hvd_status status = hvd_wait(handle);
      if (status != HVD_OK) report(text_of(status));
    }
    const bool right =
        sum == std::vector<float>{2, 4} && root[0] == 6 && all == std::vector<float>{0, 1};
    report(right ? "right" : "wrong");
    hvd::shutdown();
  });
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "right");
}

TEST(AsyncAbi, InvalidCallsReturnErrors) {
  Job job(1, [](int, const Child::Report& report) {
    hvd_handle handle = 0;
    int done = 0;
    report(text_of(hvd_barrier_async(nullptr, &handle)));
    report(text_of(hvd_wait(1)));
    hvd::init();
    report(text_of(hvd_barrier_async(nullptr, nullptr)));
    report(text_of(hvd_wait(7)));
    report(text_of(hvd_poll(0, &done)));
    report(text_of(hvd_wait(-1)));
    report(text_of(hvd_wait_for(-1, 0, &done)));
    hvd_allreduce_async(nullptr, nullptr, 3, HVD_FLOAT32, HVD_SUM, nullptr, &handle);
    report(text_of(hvd_wait(handle)));
    hvd::shutdown();
  });
  const auto next = [&] { return job.rank(0).line().value_or("nothing"); };
  EXPECT_EQ(next(), "hvd_barrier_async: called before hvd_init or after hvd_shutdown");
  EXPECT_EQ(next(), "hvd_wait: called before hvd_init or after hvd_shutdown");
  EXPECT_EQ(next(), "hvd_barrier_async: handle is null");
  EXPECT_EQ(next(), "there is no handle 7");
  EXPECT_EQ(next(), "hvd_poll: there is no handle 0");
  EXPECT_EQ(next(), "hvd_wait: there is no handle -1");
  EXPECT_EQ(next(), "hvd_wait_for: there is no handle -1");
  EXPECT_EQ(next(), "allreduce \"allreduce #1\": rank 0: the input is null with a count of 3");
}

TEST(AsyncAbi, ADeadRankFailsPendingAndLaterCalls) {
  Job job(3, [](int rank, const Child::Report& report) {
    hvd::init();
    hvd::barrier();
    report("here");
    hvd_handle handle = 0;
    float value = 1;
    if (rank != 1) hvd_allreduce_async(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr, &handle);
    if (rank == 1) ::pause();
    report(text_of(hvd_wait(handle)));
    hvd_barrier_async(nullptr, &handle);
    report(text_of(hvd_wait(handle)));
    ::_exit(0);
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "here");
  job.rank(1).kill();
  for (const int rank : {0, 2}) {
    for (int i = 0; i < 2; ++i) {
      const std::string line = job.rank(rank).line().value_or("nothing");
      EXPECT_NE(line.find("rank 1 (pid"), std::string::npos) << line;
    }
  }
}

// Submits an allreduce of one value, named `name`, on a process set. Returns its handle.
hvd_handle submit(float& value, const char* name, std::int32_t process_set = 0) {
  hvd_options options = named(name);
  options.process_set = process_set;
  hvd_handle handle = 0;
  hvd_allreduce_async(&value, &value, 1, HVD_FLOAT32, HVD_SUM, &options, &handle);
  return handle;
}

TEST(AsyncAbi, AHandleOfAnEndedSessionFailsWithItsGeneration) {
  Job job(2, [](int, const Child::Report& report) {
    const std::vector<int> both{0, 1};
    float first = 1, of_set = 1, second = 10, of_next_set = 10;
    int done = 7;
    hvd::init({.process_sets = {both, both}});
    const hvd_handle old = submit(first, "a"), old_of_set = submit(of_set, "a", 2);
    hvd::shutdown();
    report(text_of(hvd_wait(old)));
    hvd::init({.process_sets = {both, both}});
    const hvd_handle now = submit(second, "b"), now_of_set = submit(of_next_set, "b", 2);
    report(text_of(hvd_wait(old)));
    report(text_of(hvd_wait(old_of_set)));
    report(text_of(hvd_poll(old, &done)));
    report(text_of(hvd_wait_for(old, 0, &done)));
    report(text_of(hvd_wait(now)) + text_of(hvd_wait(now_of_set)));
    report(std::to_string(done) + " " + std::to_string(second) + " " + std::to_string(of_next_set));
    report(text_of(hvd_wait(0)));
    hvd::shutdown();
    report(text_of(hvd_wait(old)));
    report(text_of(hvd_wait(now)));
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto next = [&] { return job.rank(rank).line().value_or("nothing"); };
    const std::string over = ", which is over";
    const std::string of_set = std::to_string((std::int64_t{2} << 40) + 1);
    const std::string of_next = std::to_string((std::int64_t{3} << 40) + 1);
    EXPECT_EQ(next(), "hvd_wait: handle 1 is of generation 1" + over);
    EXPECT_EQ(next(), "hvd_wait: handle 1 is of generation 1" + over + "; this is generation 2");
    EXPECT_EQ(next(), "hvd_wait: handle " + of_set + " is of generation 1" + over +
                          "; this is generation 2");
    EXPECT_EQ(next(), "hvd_poll: handle 1 is of generation 1" + over + "; this is generation 2");
    EXPECT_EQ(next(),
              "hvd_wait_for: handle 1 is of generation 1" + over + "; this is generation 2");
    EXPECT_EQ(next(), "okok");
    EXPECT_EQ(next(), "7 20.000000 20.000000");
    EXPECT_EQ(next(), "hvd_wait: there is no handle 0");
    EXPECT_EQ(next(), "hvd_wait: handle 1 is of generation 1" + over);
    EXPECT_EQ(next(), "hvd_wait: handle " + of_next + " is of generation 2" + over);
  }
}

TEST(AsyncAbi, WorksInManySessionsOfOneProcess) {
  Job job(2, [](int, const Child::Report& report) {
    for (int round = 0; round < 20; ++round) {
      hvd::init();
      float value = 1;
      hvd_handle handle = 0;
      hvd_allreduce_async(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr, &handle);
      if (hvd_wait(handle) != HVD_OK || value != 2) report(hvd_last_error());
      hvd::shutdown();
    }
    report("right");
  });
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "right");
}

}  // namespace
}  // namespace libhvd::test
