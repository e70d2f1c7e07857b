// hvd_init_with: some of the ranks, and process sets at the start.
#include "support.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <unistd.h>

namespace libhvd::test {
namespace {

using Ranks = std::vector<int>;

const std::vector<Ranks> kPlacements{{0, 0, 0, 0}, {0, 1, 0, 1}};

// The rank tells what the body returns, or throws.
Job::Body telling(const std::function<std::string(int rank)>& body) {
  return [body](int rank, const Child::Tell& tell) {
    try {
      tell(body(rank));
    } catch (const std::exception& error) {
      tell(error.what());
    }
  };
}

bool holds(const Ranks& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string text_of(hvd_status status) {
  return status == HVD_OK ? "ok" : std::to_string(status) + " " + hvd_last_error();
}

std::string start_with(const std::vector<int>& ranks) {
  hvd_init_options options{};
  options.struct_size = sizeof options;
  options.ranks = ranks.data();
  options.rank_count = ranks.size();
  return text_of(hvd_init_with(&options));
}

// "1 of 2: 3 1", with the job's ranks of all, as each has told them.
std::string who_is_here(int rank_in_job) {
  std::string said = std::to_string(hvd::rank()) + " of " + std::to_string(hvd::size()) + ":";
  for (const int each : hvd::allgather(std::span<const int>(&rank_in_job, 1)))
    said += " " + std::to_string(each);
  return said;
}

std::string start_and_end(const Ranks& ranks, int rank_in_job) {
  hvd::init({.ranks = ranks});
  std::string said = who_is_here(rank_in_job);
  hvd::shutdown();
  return said;
}

TEST(SomeRanks, AreCountedInTheListsOrder) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, telling([](int rank) {
              if (rank == 0) return std::string("stays out");
              return start_and_end({3, 1, 2}, rank);
            }));
    const char* const said[] = {"stays out", "1 of 3: 3 1 2", "2 of 3: 3 1 2", "0 of 3: 3 1 2"};
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), said[rank]);
  }
}

TEST(SomeRanks, OtherRanksMayStartBesideThem) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, telling([](int rank) {
              const Ranks own = rank < 2 ? Ranks{0, 1} : Ranks{2, 3};
              return start_and_end(own, rank);
            }));
    const char* const said[] = {"0 of 2: 0 1", "1 of 2: 0 1", "0 of 2: 2 3", "1 of 2: 2 3"};
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), said[rank]);
  }
}

// Ranks that were in different starts before still meet.
TEST(SomeRanks, StartWithOthersAfterwards) {
  Job job(4, telling([](int rank) {
            const std::vector<Ranks> starts{{1, 2}, {}, {0, 3}, {2, 1, 3}, {1, 2}, {}, {3}, {}};
            std::string said;
            for (const Ranks& ranks : starts) {
              if (!ranks.empty() && !holds(ranks, rank)) continue;
              said += start_and_end(ranks, rank) + "; ";
            }
            return said;
          }));
  const auto all = [](int rank) { return std::to_string(rank) + " of 4: 0 1 2 3; "; };
  const std::string said[] = {
      all(0) + "0 of 2: 0 3; " + all(0) + all(0),
      "0 of 2: 1 2; " + all(1) + "1 of 3: 2 1 3; 0 of 2: 1 2; " + all(1) + all(1),
      "1 of 2: 1 2; " + all(2) + "0 of 3: 2 1 3; 1 of 2: 1 2; " + all(2) + all(2),
      all(3) + "1 of 2: 0 3; 2 of 3: 2 1 3; " + all(3) + "0 of 1: 3; " + all(3)};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), said[rank]);
}

TEST(SomeRanks, LocalAndCrossNumbersAreTheirs) {
  Job job({0, 0, 1, 1}, telling([](int rank) {
            if (rank == 0) return std::string("stays out");
            hvd::init({.ranks = {1, 2, 3}});
            std::string said;
            for (const int number :
                 {hvd::local_rank(), hvd::local_size(), hvd::cross_rank(), hvd::cross_size(),
                  hvd::node_rank(), hvd::node_count(), static_cast<int>(hvd::is_homogeneous())})
              said += std::to_string(number);
            hvd::shutdown();
            return said;
          }));
  const char* const said[] = {"stays out", "0102020", "0212120", "1201120"};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), said[rank]);
}

// Roots are those of hvd_rank(); messages call a rank by its rank in the job.
TEST(SomeRanks, RootsAreTheirsAndMessagesTheJobs) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, [](int rank, const Child::Tell& tell) {
      if (rank % 2 == 0) return;
      hvd::init({.ranks = {3, 1}, .process_sets = {{0, 1}}});
      hvd_options on_set{};
      on_set.struct_size = sizeof on_set;
      on_set.process_set = 1;
      const hvd_options* const in_both[] = {nullptr, &on_set};
      for (const hvd_options* options : in_both) {
        int value = rank;
        hvd::detail::check(hvd_broadcast(&value, 1, HVD_INT32, 1, options));
        tell(std::to_string(value));
        tell(text_of(hvd_broadcast(&value, 1, HVD_INT32, hvd::rank(), options)));
      }
      float values[3] = {};
      tell(text_of(
          hvd_allreduce(values, values, hvd::rank() == 0 ? 1 : 3, HVD_FLOAT32, HVD_SUM, nullptr)));
      if (rank == 3) ::_exit(0);
      tell(text_of(hvd_barrier(nullptr)));
    });
    for (const int rank : {1, 3}) {
      const auto next = [&] { return job.rank(rank).line().value_or("nothing"); };
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(next(), "1");
        const std::string root = next();
        EXPECT_NE(root.find("the root is 3 on rank 3 and 1 on rank 1"), std::string::npos) << root;
      }
      const std::string count = next();
      EXPECT_NE(count.find("the count is 1 on rank 3 and 3 on rank 1"), std::string::npos) << count;
    }
    const std::string gone = job.rank(1).line().value_or("nothing");
    EXPECT_NE(gone.find("rank 3 (pid"), std::string::npos) << gone;
  }
}

TEST(SomeRanks, AListThatMakesNoSenseIsAnError) {
  Job job(2, [](int rank, const Child::Tell& tell) {
    for (const Ranks& ranks : {Ranks{2}, Ranks{rank, rank}, Ranks{1 - rank}}) {
      tell(start_with(ranks));
    }
    hvd_init_options options{};
    tell(text_of(hvd_init_with(&options)));
    options.struct_size = sizeof options;
    options.rank_count = 1;
    tell(text_of(hvd_init_with(&options)));
    options.ranks = &rank;
    options.rank_count = 0;
    tell(text_of(hvd_init_with(&options)));
    struct {
      hvd_init_options known;
      std::size_t more;
    } later{};
    later.known.struct_size = sizeof later;
    later.more = 1;
    tell(text_of(hvd_init_with(&later.known)));
    tell(start_and_end({}, rank));  // nothing is left of all that
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto next = [&] { return job.rank(rank).line().value_or("nothing"); };
    const std::string list = "1 hvd_init_with: the list of ranks to start with: ";
    const std::string own = "rank " + std::to_string(rank);
    EXPECT_EQ(next(), list + "rank 2 is not one of the job's 2");
    EXPECT_EQ(next(), list + own + " stands twice in it");
    EXPECT_EQ(next(),
              list + own + ", this one, is not in it; only the ranks in it may start with it");
    EXPECT_EQ(next(),
              "1 hvd_init_with: hvd_init_options.struct_size is 0; it must be "
              "sizeof(hvd_init_options)");
    EXPECT_EQ(next(), "1 hvd_init_with: the list of ranks is null");
    EXPECT_EQ(next(), list + "it is empty");
    EXPECT_EQ(next(),
              "1 hvd_init_with: hvd_init_options asks for what this version of libhvd cannot do");
    EXPECT_EQ(next(), std::to_string(rank) + " of 2: 0 1");
  }
}

TEST(SomeRanks, ListsThatDifferAreATimeOutThatSaysSo) {
  const auto body = [](int rank) {
    if (rank == 3) return std::string("stays out");
    return start_with(rank == 0 ? Ranks{0, 1} : Ranks{0, 1, 2});
  };
  Job job(4, telling(body), {{"HVD_START_TIMEOUT", "5"}});
  const std::string waited = job.rank(0).line().value_or("nothing");
  EXPECT_EQ(waited,
            "7 hvd_init_with: rank 1 did not come to rank 0 within 5 s (HVD_START_TIMEOUT)");
  for (const int rank : {1, 2}) {
    const std::string refused = job.rank(rank).line().value_or("nothing");
    EXPECT_EQ(refused.substr(0, 2), "7 ");
    EXPECT_NE(refused.find("it starts with other ranks of this job"), std::string::npos) << refused;
  }
}

TEST(SomeRanks, AloneThereIsOnlyRank0) {
  Child child([](const Child::Tell& tell) {
    for (const char* name : {"HVD_RANK", "HVD_SIZE", "RANK", "WORLD_SIZE", "PMIX_NAMESPACE"})
      ::unsetenv(name);
    tell(start_with({0, 1}));
    tell(start_with({0}));
  });
  EXPECT_EQ(child.line().value_or("nothing"),
            "1 hvd_init_with: the list of ranks to start with: rank 1 is not one of the job's 1");
  EXPECT_EQ(child.line().value_or("nothing"), "ok");
}

int sum_in(std::int32_t set, int value) {
  hvd::Options options;
  options.on = hvd::ProcessSet::from_id(set);
  hvd::allreduce(std::span(&value, 1), hvd::Op::sum, options);
  return value;
}

TEST(FirstProcessSets, AreThereFromTheStart) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, telling([](int rank) {
              std::string said;
              for (const Ranks& ranks : {Ranks{}, Ranks{3, 2, 1}}) {
                if (!ranks.empty() && !holds(ranks, rank)) continue;
                hvd::init({.ranks = ranks, .process_sets = {{2, 0}, {1}}});
                said += std::to_string(hvd_process_sets(nullptr, 0));
                for (const int set : {1, 2}) {
                  if (!hvd::ProcessSet::from_id(set).included()) continue;
                  said += " " + std::to_string(set) + ":" + std::to_string(sum_in(set, 1 << rank));
                }
                const hvd::ProcessSet added({0, 1});
                said += " " + std::to_string(added.id()) + "; ";
                hvd::shutdown();
              }
              return said;
            }));
    const char* const said[] = {"3 1:5 3; ", "3 2:2 3; 3 1:10 3; ", "3 1:5 3; 3 2:4 3; ",
                                "3 3; 3 1:10 3; "};
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), said[rank]);
  }
}

// What `rank` gives beside the others, and what all are told of it.
void expect_error(const std::function<hvd_init_options(int rank)>& options,
                  const std::string& text) {
  Job job(3, [&](int rank, const Child::Tell& tell) {
    const hvd_init_options own = options(rank);
    tell(text_of(hvd_init_with(&own)));
    tell(start_and_end({}, rank));
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), text);
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), std::to_string(rank) + " of 3: 0 1 2");
  }
}

hvd_init_options with_sets(const hvd_rank_list* sets, std::size_t count) {
  return {.struct_size = sizeof(hvd_init_options),
          .ranks = nullptr,
          .rank_count = 0,
          .process_sets = sets,
          .process_set_count = count};
}

TEST(FirstProcessSets, WhatOneRankGetsWrongIsAnErrorOnAll) {
  static const int ranks[] = {0, 2, 2, 3};
  static const hvd_rank_list pair[] = {{ranks, 2}}, triple[] = {{ranks, 3}},
                             large[] = {{ranks + 2, 2}}, empty[] = {{ranks, 0}},
                             null[] = {{nullptr, 1}};
  const auto same = [](const hvd_rank_list* sets) {
    return [=](int) { return with_sets(sets, 1); };
  };
  expect_error(same(triple), "1 hvd_init_with: hvd_add_process_set: rank 2 stands twice in it");
  expect_error(same(large),
               "1 hvd_init_with: hvd_add_process_set: rank 3 is not one of the job's 3");
  expect_error(same(empty), "1 hvd_init_with: hvd_add_process_set: a set needs at least one rank");
  expect_error([](int rank) { return with_sets(rank == 1 ? null : pair, 1); },
               "1 hvd_init_with: rank 1: the ranks of process set 1 are null");
  expect_error([](int) { return with_sets(nullptr, 2); },
               "1 hvd_init_with: rank 0: the list of process sets is null");
  expect_error([](int rank) { return with_sets(pair, rank == 2 ? 0 : 1); },
               "3 hvd_init_with: the process sets to start with differ: they are {0,2} on rank 0 "
               "and none on rank 2");
}

}  // namespace
}  // namespace libhvd::test
