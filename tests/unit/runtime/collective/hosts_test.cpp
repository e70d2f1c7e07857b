// The C ABI in jobs over several hosts. Each rank is a process, each host has its own folder for
// shared memory, and the connections go over loopback.
#include "sum_in_order.hpp"
#include "support.hpp"

#include <csignal>
#include <map>
#include <numeric>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using libhvd::test::count_threads;
using libhvd::test::entries_in;
using libhvd::test::Job;
using Report = libhvd::test::Child::Report;
using Hosts = std::vector<int>;

const Hosts kUneven{0, 0, 0, 1, 1, 2};
const Hosts kInTurn{0, 1, 0, 1, 0};

std::string last_error_of(hvd_status status) {
  return status == HVD_OK ? "success" : std::to_string(status) + " " + hvd_last_error();
}

// Makes the body of a rank that reports its result, or the error that it throws.
Job::Body reporting(const std::function<std::string(int rank)>& body) {
  return [body](int rank, const Report& report) {
    try {
      report(body(rank));
    } catch (const hvd::Error& error) {
      report(std::to_string(error.status()) + " " + error.what());
    }
  };
}

void expect_from(Job& job, const std::vector<int>& ranks, const std::string& text) {
  for (const int rank : ranks) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(line.find(text), std::string::npos) << "rank " << rank << ": " << line;
  }
}

std::vector<int> all_of(const Job& job) {
  std::vector<int> ranks(static_cast<std::size_t>(job.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

double value_of(int rank, std::size_t i) {
  return 1.0 / (static_cast<double>(i) + 3) * (rank + 1) + 0.1 * rank;
}

// Makes collectives and checks their results. Sums must have the bits of the order of reduction.
std::string check_collectives(const Hosts& hosts) {
  std::string text;
  for (const std::size_t count : {1u, 1000u, 50001u}) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value_of(hvd::rank(), i);
    hvd::allreduce(std::span(values), hvd::Op::sum);
    for (std::size_t i = 0; i < count; ++i) {
      const double sum =
          libhvd::test::sum_in_order(hosts, [=](int rank) { return value_of(rank, i); });
      if (values[i] != sum) return "wrong sum at " + std::to_string(i);
    }
  }
  std::vector<int> own(static_cast<std::size_t>(hvd::rank()) * 9001, hvd::rank());
  const auto all = hvd::allgather(std::span(own));
  const auto total = std::accumulate(all.begin(), all.end(), std::int64_t{0});
  std::int64_t wanted = 0;
  for (int rank = 0; rank < hvd::size(); ++rank) wanted += std::int64_t{9001} * rank * rank;
  if (total != wanted) return "wrong rows";
  for (int root = 0; root < hvd::size(); ++root) {
    if (hvd::broadcast(hvd::rank() * 10, root) != root * 10) return "wrong broadcast";
  }
  hvd::barrier();
  return "right";
}

// The parameter is HVD_DATA_TLS: connections without and with encryption.
class OnHosts : public testing::TestWithParam<const char*> {
 protected:
  static Job job_on(const Hosts& hosts, const Job::Body& body,
                    std::map<std::string, std::string> variables = {}) {
    variables["HVD_DATA_TLS"] = GetParam();
    return Job(hosts, body, variables);
  }
};

std::string encryption(const testing::TestParamInfo<const char*>& info) {
  return std::string(info.param) == "1" ? "OverTls" : "InTheClear";
}

using SeveralHosts = OnHosts;
INSTANTIATE_TEST_SUITE_P(Connections, SeveralHosts, testing::Values("0", "1"), encryption);

TEST_P(SeveralHosts, GiveTheBitsOfTheReductionOrder) {
  for (const Hosts& hosts : {Hosts{0, 1}, kUneven, kInTurn}) {
    Job job = job_on(hosts, reporting([&](int) {
                       hvd::init();
                       std::string text = check_collectives(hosts);
                       hvd::shutdown();
                       return text;
                     }));
    expect_from(job, all_of(job), "right");
    for (const int host : {0, 1}) EXPECT_TRUE(job.memory(host).entries().empty());
  }
}

TEST_P(SeveralHosts, AreNumberedInTheOrderOfTheirFirstRanks) {
  Job job =
      job_on(kUneven, reporting([](int) {
               hvd::init();
               std::string text;
               for (const int number : {hvd::local_rank(), hvd::local_size(), hvd::cross_rank(),
                                        hvd::cross_size(), hvd::node_rank(), hvd::node_count()}) {
                 text += std::to_string(number);
               }
               text += hvd::is_homogeneous() ? " even" : " uneven";
               hvd::shutdown();
               return text;
             }));
  const std::vector<std::string> wanted{"030303", "130203", "230103", "021313", "121213", "012323"};
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job.rank(rank).line(), wanted[static_cast<std::size_t>(rank)] + " uneven");
  }
}

TEST_P(SeveralHosts, InitAndShutdownLeakNoFilesOrThreads) {
  Job job = job_on(Hosts{0, 0, 1}, reporting([](int) {
                     std::size_t files = 0, threads = 0;
                     for (int round = 0; round < 20; ++round) {
                       hvd::init();
                       const int sum = hvd::allreduce(round, hvd::Op::sum);
                       hvd::shutdown();
                       if (sum != 3 * round) return std::string("wrong sum");
                       if (round == 0) {
                         files = entries_in("/proc/self/fd");
                         threads = count_threads();
                         continue;
                       }
                       const std::size_t threads_now = count_threads(threads);
                       const std::size_t files_now = entries_in("/proc/self/fd");
                       if (files_now != files || threads_now > threads)
                         return std::to_string(files) + " files, " + std::to_string(threads) +
                                " threads became " + std::to_string(files_now) + ", " +
                                std::to_string(threads_now);
                     }
                     return std::string("done");
                   }));
  expect_from(job, all_of(job), "done");
}

TEST_P(SeveralHosts, RanksMayShutDownWhileOthersReadTheLastResult) {
  for (int round = 0; round < 10; ++round) {
    Job job = job_on(kInTurn, reporting([](int) {
                       hvd::init();
                       std::vector<float> values(100000, 1);
                       const hvd_status status =
                           hvd_allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32,
                                         HVD_SUM, nullptr);
                       const std::string text = last_error_of(status);
                       hvd::shutdown();
                       return text;
                     }));
    expect_from(job, all_of(job), "success");
  }
}

// The victims wait until they are killed. The others call a barrier and report its error.
class LossTest : public OnHosts {
 protected:
  Job start(const Hosts& hosts, std::vector<int> victims) {
    victims_ = std::move(victims);
    const auto body = [this](int rank, const Report& report) {
      const bool initialised = hvd_init() == HVD_OK;
      const bool together = initialised && hvd_barrier(nullptr) == HVD_OK;
      report(together ? "ready" : hvd_last_error());
      if (std::count(victims_.begin(), victims_.end(), rank) > 0) ::pause();
      report(last_error_of(hvd_barrier(nullptr)));
      report(last_error_of(hvd_barrier(nullptr)));  // fails at once: the loss is known
      report(last_error_of(hvd_shutdown()));
    };
    return job_on(hosts, body, {{"HVD_HOST_TIMEOUT", "2"}});
  }

  void expect_from_others(Job& job, const std::string& text) {
    for (int rank = 0; rank < job.size(); ++rank) {
      if (std::count(victims_.begin(), victims_.end(), rank) > 0) continue;
      expect_from(job, {rank, rank}, text);
      EXPECT_EQ(job.rank(rank).line(), "success");
    }
  }

  std::vector<int> victims_;
};

INSTANTIATE_TEST_SUITE_P(Connections, LossTest, testing::Values("0", "1"), encryption);

TEST_P(LossTest, OfARankIsReportedOnEveryRank) {
  Job job = start(kUneven, {4});
  expect_from(job, all_of(job), "ready");
  job.rank(4).kill();
  expect_from_others(
      job, "4 barrier: rank 4 (pid " + std::to_string(job.rank(4).pid()) + " on b) has died");
}

TEST_P(LossTest, OfTheRankWithTheBridgeIsReportedOnEveryRank) {
  Job job = start(kUneven, {3});
  expect_from(job, all_of(job), "ready");
  job.rank(3).kill();
  expect_from_others(
      job, "4 barrier: rank 3 (pid " + std::to_string(job.rank(3).pid()) + " on b) has died");
}

TEST_P(LossTest, OfAWholeHostIsReportedOnEveryRank) {
  Job job = start(kUneven, {3, 4});
  expect_from(job, all_of(job), "ready");
  job.rank(3).kill();
  job.rank(4).kill();
  expect_from_others(job, "4 barrier: rank 3 (pid ");
}

// The kernel of their host still answers. A host that does not is tested in tests/cluster.
TEST_P(SeveralHosts, WaitForStoppedRanksLongerThanTheHostTimeout) {
  constexpr int kLongerThanTheTimeoutMs = 3500;
  const auto body = [](int rank, const Report& report) {
    const bool initialised = hvd_init() == HVD_OK;
    if (rank == 3 || rank == 4) {  // all of a host
      report(initialised ? "ready" : hvd_last_error());
      ::raise(SIGSTOP);
    }
    report(last_error_of(hvd_barrier(nullptr)));
    report(last_error_of(hvd_shutdown()));
  };
  Job job = job_on(kUneven, body, {{"HVD_HOST_TIMEOUT", "2"}});
  expect_from(job, {3, 4}, "ready");
  ::poll(nullptr, 0, kLongerThanTheTimeoutMs);  // nothing to await: no rank may fail in this time
  job.rank(3).signal(SIGCONT);
  job.rank(4).signal(SIGCONT);
  for (int rank = 0; rank < job.size(); ++rank) expect_from(job, {rank, rank}, "success");
}

TEST_P(SeveralHosts, CallsAfterARankShutsDownNameIt) {
  for (const int leaver : {1, 3, 4}) {  // ranks without and with the bridge
    Job job = job_on(kUneven, reporting([=](int rank) {
                       hvd::init();
                       hvd::barrier();
                       if (rank == leaver) {
                         hvd::shutdown();
                         return std::string("gone");
                       }
                       return last_error_of(hvd_barrier(nullptr));
                     }));
    for (int rank = 0; rank < job.size(); ++rank) {
      expect_from(job, {rank},
                  rank == leaver ? "gone" : "4 barrier: rank " + std::to_string(leaver) + " (pid ");
    }
  }
}

// The forked child, like a data loader, inherits the connections and outlives its rank.
TEST_P(SeveralHosts, DetectADeadRankWhoseForkedChildHoldsTheConnections) {
  Job job = job_on(Hosts{0, 1, 1}, [](int rank, const Report& report) {
    const bool initialised = hvd_init() == HVD_OK;
    if (rank == 1) libhvd::test::die_and_leave_a_child(report);
    report(initialised ? last_error_of(hvd_barrier(nullptr)) : hvd_last_error());
  });
  expect_from(job, {0, 2}, "rank 1 (pid ");  // in hvd_init or the barrier
}

TEST_P(SeveralHosts, ReportAMismatchOfOneRankOnEveryRank) {
  Job job = job_on(kInTurn, reporting([](int rank) {
                     hvd::init();
                     int values[3] = {};
                     hvd_options options{};
                     options.struct_size = sizeof options;
                     options.name = "grad";
                     const std::size_t count = rank == 3 ? 3 : 2;
                     const std::string text = last_error_of(
                         hvd_allreduce(values, values, count, HVD_INT32, HVD_SUM, &options));
                     if (hvd::allreduce(1, hvd::Op::sum) != 5) return std::string("out of order");
                     hvd::shutdown();
                     return text;
                   }));
  expect_from(job, all_of(job), "the count is 2 on ranks 0-2,4 and 3 on rank 3");
}

TEST_P(SeveralHosts, ReportOnEveryRankThatOneCannotListen) {
  Job job = job_on(Hosts{0, 1}, reporting([](int rank) {
                     if (rank == 1) ::setenv("HVD_INTERFACE", "nosuch0", 1);
                     return last_error_of(hvd_init());
                   }));
  expect_from(job, all_of(job),
              "hvd_init: rank 1 on b: HVD_INTERFACE=\"nosuch0\" names no network interface of this "
              "host");
}

// Tries each rank: one that shares its host, and one that is alone.
TEST(Encryption, DifferentSettingOfOneRankFailsOnEveryRank) {
  for (const int other : {0, 1, 2}) {
    for (const char* common : {"0", "1"}) {
      const char* const its = *common == '0' ? "1" : "0";
      Job job(Hosts{0, 0, 1}, reporting([=](int rank) {
                ::setenv("HVD_DATA_TLS", rank == other ? its : common, 1);
                return last_error_of(hvd_init());
              }));
      for (const int rank : all_of(job)) {
        const std::string line = job.rank(rank).line().value_or("nothing");
        EXPECT_NE(line.find("HVD_DATA_TLS is 1 on rank"), std::string::npos) << line;
        EXPECT_NE(line.find(": give all ranks the same"), std::string::npos) << line;
      }
    }
  }
}

TEST(Encryption, IsRefusedForTheMpiTransport) {
  Job job(Hosts{0, 1}, reporting([](int) { return last_error_of(hvd_init()); }),
          {{"HVD_DATA_TLS", "1"}, {"HVD_TRANSPORT", "mpi"}});
  expect_from(job, all_of(job),
              "HVD_DATA_TLS=1 and HVD_TRANSPORT=mpi: what goes over MPI cannot be encrypted");
}

TEST(Encryption, NeedsTheJobKey) {
  Job job(Hosts{0, 1}, reporting([](int) { return last_error_of(hvd_init()); }),
          {{"HVD_DATA_TLS", "1"}, {"HVD_JOB_KEY", ""}});
  expect_from(job, all_of(job), "HVD_DATA_TLS=1 needs the secret that HVD_JOB_KEY holds");
}

TEST(Encryption, AcceptsOnlyZeroOrOne) {
  Job job(Hosts{0, 1}, reporting([](int) { return last_error_of(hvd_init()); }),
          {{"HVD_DATA_TLS", "yes"}});
  expect_from(job, all_of(job), "HVD_DATA_TLS=\"yes\"");
}

}  // namespace
