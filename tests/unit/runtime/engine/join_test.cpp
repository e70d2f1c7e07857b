// Ranks that have run out of data and have joined, while others still reduce.
#include "collective/group.hpp"
#include "submit.hpp"

#include <hvd/hvd.hpp>
#include <sys/mman.h>
#include <sys/resource.h>

namespace libhvd::test {
namespace {

// Takes part in the others' calls until all ranks have joined.
void join_all(Communicator& communicator) {
  for (bool joined = false; !joined;) {
    const auto all = communicator.join();
    ASSERT_TRUE(all.ok()) << all.error().message;
    joined = *all;
  }
}

// Rank r makes r + 1 calls; after it has joined it contributes zeros.
TEST(Join, AJoinedRankContributesZerosToSumsAndAverages) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
    run_ranks_everywhere(3, [&](Communicator& communicator) {
      std::vector<float> values(count);
      for (int call = 0; call <= communicator.rank(); ++call) {
        const float callers = static_cast<float>(communicator.size() - call);
        for (const hvd_op op : {HVD_SUM, HVD_AVERAGE}) {
          std::fill(values.begin(), values.end(), 6.0f);
          ASSERT_EQ(message_of(communicator.allreduce(values.data(), values.data(), count,
                                                      HVD_FLOAT32, op, {})),
                    "");
          const float wanted = op == HVD_SUM ? 6 * callers : 2 * callers;
          ASSERT_EQ(values, std::vector<float>(count, wanted));
        }
      }
      join_all(communicator);
      EXPECT_EQ(message_of(communicator.barrier({})), "");  // all ranks take part again
    });
  }
}

TEST(Join, OtherCollectivesFailAndNameTheJoinedRanks) {
  run_ranks_everywhere(4, [](Communicator& communicator) {
    if (communicator.rank() % 2 == 0) {
      const std::string why =
          ": ranks 1,3 have joined, with which only an allreduce with sum or average can go on";
      float value = 1;
      EXPECT_EQ(message_of(
                    communicator.allreduce(&value, &value, 1, HVD_FLOAT32, HVD_MAX, {.name = "x"})),
                "allreduce \"x\"" + why);
      EXPECT_EQ(message_of(communicator.broadcast(&value, 1, HVD_FLOAT32, 0, {.name = "b"})),
                "broadcast \"b\"" + why);
      EXPECT_EQ(message_of(communicator.barrier({})), "barrier" + why);
      // A mismatch among the other ranks is reported first.
      EXPECT_EQ(
          message_of(communicator.allreduce(&value, &value, 1, HVD_FLOAT32,
                                            communicator.rank() == 0 ? HVD_SUM : HVD_AVERAGE, {})),
          "allreduce: the ranks do not agree: the op is sum on rank 0 and average on rank 2");
    }
    join_all(communicator);
  });
}

TEST(Join, AJoinedRankContributesZerosToAGroup) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    std::vector<float> small(10, 1), large(5000, 2);
    if (communicator.rank() != 1) {
      const AllreduceGroup group{{small.data(), large.data(), small.data() + 5},
                                 {small.data(), large.data(), small.data() + 5},
                                 {5, large.size(), 5},
                                 HVD_FLOAT32,
                                 HVD_SUM};
      EXPECT_EQ(message_of(allreduce_group(communicator, group, {.name = "g"})), "");
      EXPECT_EQ(small, std::vector<float>(10, 2));
      EXPECT_EQ(large, std::vector<float>(5000, 4));
    }
    join_all(communicator);
  });
}

// Uses the engine, and repeats the join.
TEST(Join, AJoinedRankContributesZerosToNamedTensors) {
  run_engines(3, [](const Rank& rank) {
    for (int lap = 0; lap < 3; ++lap) {
      for (int step = 0; step < 3; ++step) {
        if (rank.rank == lap && step == 1) break;  // has one step only
        std::vector<std::vector<float>> tensors(4, std::vector<float>(50, 1));
        std::vector<std::int64_t> handles;
        for (std::size_t i = 0; i < tensors.size(); ++i)
          handles.push_back(submit(rank, sum_of("t" + std::to_string(i), tensors[i])));
        const float wanted = step == 0 ? 3 : 2;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          EXPECT_EQ(message_of(rank.engine.wait(handles[i])), "");
          EXPECT_EQ(tensors[i], std::vector<float>(50, wanted)) << "lap " << lap;
        }
      }
      if (rank.rank != lap) {
        EXPECT_EQ(message_of(rank.communicator.barrier({})), "");
      }
      rank.engine.join();
      if (rank.rank == lap) {
        std::vector<float> late(1);
        const auto refused = rank.engine.submit(sum_of("late", late));
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().message,
                  "allreduce \"late\": this rank has joined, and not all others yet");
        EXPECT_EQ(message_of(rank.communicator.barrier({})), "");
      }
      EXPECT_EQ(message_of(rank.engine.wait_joined()), "");
    }
  });
}

// Unnamed calls are matched by their number, which restarts after a join.
TEST(Join, UnnamedCallsMatchAgainAfterIt) {
  run_engines(2, [](const Rank& rank) {
    std::vector<float> values(3, 1);
    for (int call = 0; call <= rank.rank; ++call)
      EXPECT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("", values)))), "");
    rank.engine.join();
    EXPECT_EQ(message_of(rank.engine.wait_joined()), "");
    values.assign(3, 1);
    EXPECT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("", values)))), "");
    EXPECT_EQ(values[0], 2);
  });
}

TEST(JoinAbi, WorksInBlockingAndAsyncCalls) {
  Job job(3, [](int rank, const Child::Report& report) {
    hvd::init();
    std::string text;
    for (int step = 0; step <= 2 * rank; ++step) {
      float plain = 1, named = 1, async = 1;
      hvd_options options{};
      options.struct_size = sizeof options;
      hvd::detail::check(hvd_allreduce(&plain, &plain, 1, HVD_FLOAT32, HVD_SUM, nullptr));
      options.name = "named";
      hvd::detail::check(hvd_allreduce(&named, &named, 1, HVD_FLOAT32, HVD_SUM, &options));
      hvd_handle handle = 0;
      options.name = "async";
      hvd::detail::check(
          hvd_allreduce_async(&async, &async, 1, HVD_FLOAT32, HVD_SUM, &options, &handle));
      hvd::detail::check(hvd_wait(handle));
      text += std::to_string(static_cast<int>(plain * 100 + named * 10 + async)) + " ";
    }
    int last = -1;
    hvd::detail::check(hvd_join(&last));
    hvd::barrier();
    report(text + "last " + std::to_string(last));
    hvd::shutdown();
  });
  EXPECT_EQ(job.rank(0).line().value_or("nothing"), "333 last 2");
  EXPECT_EQ(job.rank(1).line().value_or("nothing"), "333 222 222 last 2");
  EXPECT_EQ(job.rank(2).line().value_or("nothing"), "333 222 222 111 111 last 2");
}

// In each epoch one rank makes a second call, which ends only after all others have joined. In all
// epochs together, all ranks make the same number of calls.
void expect_latest_rank(const std::vector<int>& hosts, const char* name) {
  constexpr int kEpochs = 6;
  Job job(hosts, [name](int rank, const Child::Report& report) {
    hvd::init();
    hvd_options options{};
    options.struct_size = sizeof options;
    options.name = name;
    std::string text;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const int latest = (2 * epoch + 1 + epoch / hvd::size()) % hvd::size();
      float value = 1;
      hvd::detail::check(hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, &options));
      if (rank == latest)
        hvd::detail::check(hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, &options));
      text += hvd::join() == latest ? "right " : "wrong ";
    }
    report(text);
    hvd::shutdown();
  });
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "right right right right right right ")
        << "rank " << rank << (name == nullptr ? ", in the program's order" : ", in the engine");
  }
}

TEST(JoinAbi, ReturnsTheRankThatJoinedLastInEveryEpoch) {
  for (const char* name : {static_cast<const char*>(nullptr), "gradient"}) {
    expect_latest_rank({0, 0}, name);
    expect_latest_rank({0, 0, 0}, name);
  }
}

TEST(JoinAbi, ReturnsTheRankThatJoinedLastOnSeveralHosts) {
  for (const char* name : {static_cast<const char*>(nullptr), "gradient"})
    expect_latest_rank({0, 1, 0}, name);
}

// A sanitizer's own memory would exceed the limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// All ranks get the error, and the next calls work.
TEST(Join, NoMemoryForTheZerosFailsAGroupOnEveryRank) {
  constexpr std::size_t kCount = std::size_t{1} << 30;
  Job job(2, [](int rank, const Child::Report& report) {
    hvd::init();
    if (rank == 1) {  // since Linux 4.7 the limit includes mappings of calloc
      rlimit limit{};
      ::getrlimit(RLIMIT_DATA, &limit);
      limit.rlim_cur = kCount;
      ::setrlimit(RLIMIT_DATA, &limit);
    } else {
      void* const large = ::mmap(nullptr, kCount * sizeof(float), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      float small[] = {1};
      const void* inputs[] = {small, large, small};
      void* outputs[] = {small, large, small};
      const std::size_t lengths[] = {1, kCount, 1};
      const hvd_status status =
          hvd_grouped_allreduce(3, inputs, outputs, lengths, HVD_FLOAT32, HVD_SUM, nullptr);
      report(status == HVD_OK ? "ok" : hvd_last_error());
      report(std::to_string(hvd::allreduce(5, hvd::Op::sum)));
    }
    hvd::join();
    report(std::to_string(hvd::allreduce(1, hvd::Op::sum)));
    hvd::shutdown();
  });
  EXPECT_EQ(job.rank(0).line().value_or("nothing"),
            "allreduce: rank 1: it has joined, and has no memory for as many zeros");
  EXPECT_EQ(job.rank(0).line().value_or("nothing"), "5");
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "2");
}
#endif

}  // namespace
}  // namespace libhvd::test
