// Process sets: some of the ranks, with separate collectives.
#include "support.hpp"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <signal.h>

namespace libhvd::test {
namespace {

hvd_options on(std::int32_t set, const char* name = nullptr) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  options.process_set = set;
  return options;
}

std::int32_t add(const std::vector<int>& ranks) {
  std::int32_t set = -1;
  hvd::detail::check(hvd_add_process_set(ranks.data(), ranks.size(), &set));
  return set;
}

// Returns the sum of 2^rank over the ranks of the set.
int sum_in(std::int32_t set, const char* name = nullptr) {
  int value = 1 << hvd::rank();
  const hvd_options options = on(set, name);
  hvd::detail::check(hvd_allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, &options));
  return value;
}

const std::vector<std::vector<int>> kPlacements{{0, 0, 0, 0}, {0, 1, 0, 1}};

TEST(ProcessSets, CollectivesOfDifferentSetsAreIndependent) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, [](int rank, const Child::Report& report) {
      hvd::init();
      const std::int32_t even = add({2, 0});
      const std::int32_t most = add({1, 2, 3});
      const std::int32_t lone = add({3});
      std::string text = std::to_string(even) + std::to_string(most) + std::to_string(lone);
      // The sets make different numbers of calls, and use the same names.
      if (hvd_process_set_included(even) == 1) {
        for (int i = 0; i < 20; ++i) sum_in(even, "x");
        text += " " + std::to_string(sum_in(even));
      }
      if (hvd_process_set_included(most) == 1) text += " " + std::to_string(sum_in(most, "x"));
      if (hvd_process_set_included(lone) == 1) text += " " + std::to_string(sum_in(lone));
      text += " " + std::to_string(sum_in(0, "x"));
      report(text);
      int numbers[4] = {};
      text = std::to_string(hvd_process_set_size(most)) +
             std::to_string(hvd_process_set_ranks(even, numbers, 4));
      text += std::to_string(numbers[1]) + std::to_string(hvd_process_sets(nullptr, 0));
      if (rank == 2) text += std::to_string(hvd_process_set_rank(most));
      report(text);
      hvd::shutdown();
    });
    const char* const sums[] = {"123 5 15", "123 14 15", "123 5 14 15", "123 14 8 15"};
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), sums[rank]);
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), rank == 2 ? "32241" : "3224");
    }
  }
}

TEST(ProcessSets, AllCollectivesUseTheJobsRankNumbers) {
  Job job(4, [](int rank, const Child::Report& report) {
    hvd::init();
    const std::int32_t set = add({1, 3});
    if (rank % 2 == 1) {
      const hvd_options options = on(set);
      int value = rank;
      hvd::detail::check(hvd_broadcast(&value, 1, HVD_INT32, 3, &options));
      std::vector<int> rows(2, rank), all(4), share(1), mixed(2);
      hvd::detail::check(
          hvd_allgather(rows.data(), 2, 1, HVD_INT32, all.data(), 4, nullptr, &options));
      hvd::detail::check(
          hvd_reducescatter(rows.data(), 2, 1, HVD_INT32, HVD_SUM, share.data(), &options));
      hvd::detail::check(
          hvd_alltoall(rows.data(), nullptr, 2, 1, HVD_INT32, mixed.data(), 2, nullptr, &options));
      hvd::detail::check(hvd_barrier(&options));
      std::string text = std::to_string(value);
      for (const int each : all) text += std::to_string(each);
      text += std::to_string(share[0]) + std::to_string(mixed[0]) + std::to_string(mixed[1]);
      report(text);
      report(text_of(hvd_broadcast(&value, 1, HVD_INT32, 0, &options)));
      report(text_of(hvd_broadcast(&value, 1, HVD_INT32, rank, &options)));
      const hvd_options named = on(set, "t");
      report(text_of(hvd_allreduce(&value, &value, rank == 1 ? 0 : 1, HVD_INT32, HVD_SUM, &named)));
    } else {
      const hvd_options options = on(set);
      int value = 0;
      report(text_of(hvd_broadcast(&value, 1, HVD_INT32, 1, &options)));
    }
    const hvd_options nowhere = on(7);
    report(text_of(hvd_barrier(&nowhere)));
    hvd::shutdown();
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto next = [&] { return job.rank(rank).line().value_or("nothing"); };
    if (rank % 2 == 1) {
      EXPECT_EQ(next(), "31133413");
      EXPECT_NE(next().find("the root, rank 0, is not in the process set"), std::string::npos);
      const std::string root = next();
      EXPECT_NE(root.find("the root is 1 on rank 1 and 3 on rank 3"), std::string::npos) << root;
      EXPECT_EQ(next(),
                "allreduce \"t\": the ranks do not agree: the count is 0 on rank 1 and 1 on "
                "rank 3");
    } else {
      EXPECT_EQ(next(), "hvd_broadcast: rank " + std::to_string(rank) + " is not in process set 1");
    }
    EXPECT_EQ(next(), "hvd_barrier: there is no process set 7");
  }
}

TEST(ProcessSets, InvalidSetsOfOneRankFailOnEveryRank) {
  Job job(3, [](int rank, const Child::Report& report) {
    hvd::init();
    std::int32_t set = 0;
    const auto wrong = [&](std::vector<int> ranks) {
      report(text_of(hvd_add_process_set(ranks.data(), ranks.size(), &set)));
    };
    wrong({0, rank == 2 ? 2 : 1});
    wrong({0, 3});
    wrong({1, 1});
    wrong(std::vector<int>(1000, 0));
    wrong({});
    report(text_of(hvd_remove_process_set(rank == 0 ? 5 : 4)));
    report(text_of(hvd_remove_process_set(4)));
    report(std::to_string(add({0, 1})));
    hvd::shutdown();
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto next = [&] { return job.rank(rank).line().value_or("nothing"); };
    EXPECT_EQ(next(),
              "hvd_add_process_set: the ranks do not agree: the set is 0,1 on rank 0 and "
              "0,2 on rank 2");
    EXPECT_EQ(next(), "hvd_add_process_set: rank 3 is not one of the job's 3");
    EXPECT_EQ(next(), "hvd_add_process_set: rank 1 stands twice in it");
    EXPECT_EQ(next(), "hvd_add_process_set: rank 0 stands twice in it");
    EXPECT_EQ(next(), "hvd_add_process_set: a set needs at least one rank");
    EXPECT_EQ(next(),
              "hvd_remove_process_set: the ranks do not agree: it is 5 on rank 0 and 4 on "
              "rank 1");
    EXPECT_EQ(next(), "there is no process set 4");
    EXPECT_EQ(next(), "1");
  }
}

TEST(ProcessSets, CanBeAddedAndRemovedRepeatedly) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, [](int rank, const Child::Report& report) {
      for (int lap = 0; lap < 3; ++lap) {
        hvd::init();
        for (int round = 0; round < 5; ++round) {
          const std::int32_t set = add({rank % 1, 1, 3});
          if (hvd_process_set_included(set) == 1 && sum_in(set) != 1 + 2 + 8) report("wrong");
          hvd::detail::check(hvd_remove_process_set(set));
        }
        add({0, 2});
        hvd::shutdown();
      }
      report("right");
    });
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "right");
  }
}

TEST(ProcessSets, ADeadRankFailsOnlyTheSetsThatItIsIn) {
  Job job(4, [](int rank, const Child::Report& report) {
    hvd::init();
    const std::int32_t with = add({1, 2, 3});
    const std::int32_t without = add({0, 1});
    if (rank == 3) {
      report("here");
      ::pause();
    }
    if (rank < 2) {
      const hvd_options options = on(without, "w");
      for (int i = 0; i < 100; ++i) hvd::detail::check(hvd_barrier(&options));
    }
    if (rank > 0) {
      const hvd_options options = on(with);
      report(text_of(hvd_barrier(&options)));
    }
    ::_exit(0);
  });
  EXPECT_EQ(job.rank(3).line().value_or("nothing"), "here");
  job.rank(3).kill();
  for (const int rank : {1, 2}) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(line.find("rank 3 (pid"), std::string::npos) << line;
  }
}

// Rank 1 ends because rank 3 of its set has died. The others must name rank 3.
TEST(ProcessSets, ADeadRankOfASetFailsTheWholeJobWithItsName) {
  for (const auto& hosts : kPlacements) {
    Signal both_are_gone;
    Job job(hosts, [&](int rank, const Child::Report& report) {
      hvd::init();
      const std::int32_t set = add({1, 3});
      report("here");
      if (rank == 3) ::pause();
      if (rank == 1) {
        const hvd_options options = on(set);
        report(text_of(hvd_barrier(&options)));
        ::raise(SIGKILL);
      }
      if (rank == 0) both_are_gone.await();
      report(text_of(hvd_barrier(nullptr)));
      ::_exit(0);
    });
    for (int rank = 0; rank < 4; ++rank)
      ASSERT_EQ(job.rank(rank).line().value_or("nothing"), "here");
    job.rank(3).kill();
    const auto names_the_dead = [&](int rank) {
      const std::string line = job.rank(rank).line().value_or("nothing");
      EXPECT_NE(line.find("rank 3 (pid"), std::string::npos) << line;
    };
    names_the_dead(1);
    job.rank(1).wait();
    both_are_gone.notify();
    names_the_dead(0);
    names_the_dead(2);
  }
}

}  // namespace
}  // namespace libhvd::test
