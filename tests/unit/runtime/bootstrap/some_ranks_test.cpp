// hvd_init_with: sessions of some of the ranks, and process sets that exist from the start.
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

// Makes a rank's body that reports what `body` returns or throws.
Job::Body reporting(const std::function<std::string(int rank)>& body) {
  return [body](int rank, const Child::Report& report) {
    try {
      report(body(rank));
    } catch (const std::exception& error) {
      report(error.what());
    }
  };
}

bool holds(const Ranks& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string start_with(const std::vector<int>& ranks) {
  hvd_init_options options{};
  options.struct_size = sizeof options;
  options.ranks = ranks.data();
  options.rank_count = ranks.size();
  return code_and_text_of(hvd_init_with(&options));
}

// Returns the rank and the size of the session, and the ranks of all in the job, such as "1 of 2: 3
// 1".
std::string describe_session(int rank_in_job) {
  std::string text = std::to_string(hvd::rank()) + " of " + std::to_string(hvd::size()) + ":";
  for (const int each : hvd::allgather(std::span<const int>(&rank_in_job, 1)))
    text += " " + std::to_string(each);
  return text;
}

std::string run_session(const Ranks& ranks, int rank_in_job) {
  hvd::init({.ranks = ranks});
  std::string text = describe_session(rank_in_job);
  hvd::shutdown();
  return text;
}

TEST(SomeRanks, AreNumberedInTheListsOrder) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, reporting([](int rank) {
              if (rank == 0) return std::string("stays out");
              return run_session({3, 1, 2}, rank);
            }));
    const char* const expected[] = {"stays out", "1 of 3: 3 1 2", "2 of 3: 3 1 2", "0 of 3: 3 1 2"};
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), expected[rank]);
  }
}

TEST(SomeRanks, OtherRanksMayStartAtTheSameTime) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, reporting([](int rank) {
              const Ranks own = rank < 2 ? Ranks{0, 1} : Ranks{2, 3};
              return run_session(own, rank);
            }));
    const char* const expected[] = {"0 of 2: 0 1", "1 of 2: 0 1", "0 of 2: 2 3", "1 of 2: 2 3"};
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), expected[rank]);
  }
}

// Ranks whose earlier sessions were with others must find each other again.
TEST(SomeRanks, MayStartAgainWithOtherRanks) {
  Job job(4, reporting([](int rank) {
            const std::vector<Ranks> starts{{1, 2}, {}, {0, 3}, {2, 1, 3}, {1, 2}, {}, {3}, {}};
            std::string text;
            for (const Ranks& ranks : starts) {
              if (!ranks.empty() && !holds(ranks, rank)) continue;
              text += run_session(ranks, rank) + "; ";
            }
            return text;
          }));
  const auto all = [](int rank) { return std::to_string(rank) + " of 4: 0 1 2 3; "; };
  const std::string expected[] = {
      all(0) + "0 of 2: 0 3; " + all(0) + all(0),
      "0 of 2: 1 2; " + all(1) + "1 of 3: 2 1 3; 0 of 2: 1 2; " + all(1) + all(1),
      "1 of 2: 1 2; " + all(2) + "0 of 3: 2 1 3; 1 of 2: 1 2; " + all(2) + all(2),
      all(3) + "1 of 2: 0 3; 2 of 3: 2 1 3; " + all(3) + "0 of 1: 3; " + all(3)};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), expected[rank]);
}

TEST(SomeRanks, LocalAndCrossRanksAreNumberedAmongThem) {
  Job job({0, 0, 1, 1}, reporting([](int rank) {
            if (rank == 0) return std::string("stays out");
            hvd::init({.ranks = {1, 2, 3}});
            std::string text;
            for (const int number :
                 {hvd::local_rank(), hvd::local_size(), hvd::cross_rank(), hvd::cross_size(),
                  hvd::node_rank(), hvd::node_count(), static_cast<int>(hvd::is_homogeneous())})
              text += std::to_string(number);
            hvd::shutdown();
            return text;
          }));
  const char* const expected[] = {"stays out", "0102020", "0212120", "1201120"};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), expected[rank]);
}

// Roots are ranks of the session. Messages name ranks of the job.
TEST(SomeRanks, RootsUseSessionRanksAndMessagesUseJobRanks) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, [](int rank, const Child::Report& report) {
      if (rank % 2 == 0) return;
      hvd::init({.ranks = {3, 1}, .process_sets = {{0, 1}}});
      hvd_options on_set{};
      on_set.struct_size = sizeof on_set;
      on_set.process_set = 1;
      const hvd_options* const in_both[] = {nullptr, &on_set};
      for (const hvd_options* options : in_both) {
        int value = rank;
        hvd::detail::check(hvd_broadcast(&value, 1, HVD_INT32, 1, options));
        report(std::to_string(value));
        report(code_and_text_of(hvd_broadcast(&value, 1, HVD_INT32, hvd::rank(), options)));
      }
      float values[3] = {};
      report(code_and_text_of(
          hvd_allreduce(values, values, hvd::rank() == 0 ? 1 : 3, HVD_FLOAT32, HVD_SUM, nullptr)));
      if (rank == 3) ::_exit(0);
      report(code_and_text_of(hvd_barrier(nullptr)));
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

TEST(SomeRanks, InvalidListsFail) {
  Job job(2, [](int rank, const Child::Report& report) {
    for (const Ranks& ranks : {Ranks{2}, Ranks{rank, rank}, Ranks{1 - rank}}) {
      report(start_with(ranks));
    }
    hvd_init_options options{};
    report(code_and_text_of(hvd_init_with(&options)));
    options.struct_size = sizeof options;
    options.rank_count = 1;
    report(code_and_text_of(hvd_init_with(&options)));
    options.ranks = &rank;
    options.rank_count = 0;
    report(code_and_text_of(hvd_init_with(&options)));
    struct {
      hvd_init_options known;
      std::size_t more;
    } later{};
    later.known.struct_size = sizeof later;
    later.more = 1;
    report(code_and_text_of(hvd_init_with(&later.known)));
    report(run_session({}, rank));  // a later start works
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

TEST(SomeRanks, DifferentListsTimeOutWithTheReason) {
  const auto body = [](int rank) {
    if (rank == 3) return std::string("stays out");
    return start_with(rank == 0 ? Ranks{0, 1} : Ranks{0, 1, 2});
  };
  Job job(4, reporting(body), {{"HVD_START_TIMEOUT", "5"}});
  const std::string waited = job.rank(0).line().value_or("nothing");
  EXPECT_EQ(waited,
            "7 hvd_init_with: rank 1 did not come to rank 0 within 5 s (HVD_START_TIMEOUT)");
  for (const int rank : {1, 2}) {
    const std::string refused = job.rank(rank).line().value_or("nothing");
    EXPECT_EQ(refused.substr(0, 2), "7 ");
    EXPECT_NE(refused.find("it starts with other ranks of this job"), std::string::npos) << refused;
  }
}

TEST(SomeRanks, WithoutALauncherOnlyRank0Exists) {
  Child child([](const Child::Report& report) {
    for (const char* name : {"HVD_RANK", "HVD_SIZE", "RANK", "WORLD_SIZE", "PMIX_NAMESPACE"})
      ::unsetenv(name);
    report(start_with({0, 1}));
    report(start_with({0}));
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

TEST(FirstProcessSets, ExistFromTheStart) {
  for (const auto& hosts : kPlacements) {
    Job job(hosts, reporting([](int rank) {
              std::string text;
              for (const Ranks& ranks : {Ranks{}, Ranks{3, 2, 1}}) {
                if (!ranks.empty() && !holds(ranks, rank)) continue;
                hvd::init({.ranks = ranks, .process_sets = {{2, 0}, {1}}});
                text += std::to_string(hvd_process_sets(nullptr, 0));
                for (const int set : {1, 2}) {
                  if (!hvd::ProcessSet::from_id(set).included()) continue;
                  text += " " + std::to_string(set) + ":" + std::to_string(sum_in(set, 1 << rank));
                }
                const hvd::ProcessSet added({0, 1});
                text += " " + std::to_string(added.id()) + "; ";
                hvd::shutdown();
              }
              return text;
            }));
    const char* const expected[] = {"3 1:5 3; ", "3 2:2 3; 3 1:10 3; ", "3 1:5 3; 3 2:4 3; ",
                                    "3 3; 3 1:10 3; "};
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), expected[rank]);
  }
}

// Starts each rank with its options, and expects this error on every rank. Then a start must work.
void expect_error(const std::function<hvd_init_options(int rank)>& options,
                  const std::string& text) {
  Job job(3, [&](int rank, const Child::Report& report) {
    const hvd_init_options own = options(rank);
    report(code_and_text_of(hvd_init_with(&own)));
    report(run_session({}, rank));
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

TEST(FirstProcessSets, InvalidSetsOfOneRankFailOnEveryRank) {
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
