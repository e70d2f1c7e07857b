// Loss of ranks during large allreduces between hosts. Each rank is a process; the connections are
// real.
#include "support.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.h>
#include <poll.h>
#include <unistd.h>

namespace {

using libhvd::test::Job;
using Report = libhvd::test::Child::Report;
using Hosts = std::vector<int>;

// The parameter is HVD_DATA_TLS: connections without and with encryption.
class LargeMessages : public testing::TestWithParam<const char*> {
 protected:
  static Job job_on(const Hosts& hosts, const Job::Body& body,
                    std::map<std::string, std::string> variables = {}) {
    variables["HVD_DATA_TLS"] = GetParam();
    return Job(hosts, body, variables);
  }
  static Job start(const Hosts& hosts);
};

INSTANTIATE_TEST_SUITE_P(Connections, LargeMessages, testing::Values("0", "1"),
                         [](const auto& tls) {
                           return std::string(tls.param) == "1" ? "OverTls" : "InTheClear";
                         });

// Starts ranks that make large allreduces until one fails, so that the connections are never idle.
Job LargeMessages::start(const Hosts& hosts) {
  const auto body = [](int, const Report& report) {
    std::vector<float> values(8 << 20, 1);
    const auto call = [&] {
      return hvd_allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_MAX,
                           nullptr);
    };
    hvd_status status = hvd_init();
    if (status == HVD_OK) status = call();
    report(status == HVD_OK ? "ready" : hvd_last_error());
    while (status == HVD_OK) status = call();
    report(hvd_last_error());
    report(std::to_string(call()));
    report(std::to_string(hvd_shutdown()));
  };
  return job_on(hosts, body, {{"HVD_HOST_TIMEOUT", "2"}});
}

void expect_ready(Job& job) {
  for (int rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.rank(rank).line(), "ready");
}

void expect_from_others(Job& job, const std::vector<int>& victims, const std::string& text) {
  for (int rank = 0; rank < job.size(); ++rank) {
    if (std::count(victims.begin(), victims.end(), rank) > 0) continue;
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(line.find(text), std::string::npos) << "rank " << rank << ": " << line;
    EXPECT_EQ(job.rank(rank).line(), std::to_string(HVD_ERROR_PEER));
    EXPECT_EQ(job.rank(rank).line(), std::to_string(HVD_OK));
  }
}

TEST_P(LargeMessages, FailOnEveryRankWithTheNameOfTheKilledRank) {
  struct Case {
    Hosts hosts;
    int victim;
  };
  // Kills the only rank of a host, a rank with the bridge, and one without.
  for (const auto& [hosts, victim] : {Case{{0, 1}, 1}, Case{{0, 0, 1, 1}, 2}, Case{{0, 0, 1, 1}, 3},
                                      Case{{0, 0, 0, 1}, 1}, Case{{0, 1, 2}, 1}}) {
    Job job = start(hosts);
    expect_ready(job);
    const std::string name =
        "rank " + std::to_string(victim) + " (pid " + std::to_string(job.rank(victim).pid());
    job.rank(victim).kill();
    expect_from_others(job, {victim}, name);
  }
}

// The kernel of their host still answers for them.
TEST_P(LargeMessages, WaitForStoppedRanksLongerThanTheHostTimeout) {
  constexpr int kLongerThanTheTimeoutMs = 3500;
  Job job = start({0, 0, 1, 1});
  expect_ready(job);
  job.rank(2).signal(SIGSTOP);
  job.rank(3).signal(SIGSTOP);
  ::poll(nullptr, 0, kLongerThanTheTimeoutMs);  // nothing to await: no rank may fail in this time
  job.rank(2).signal(SIGCONT);
  job.rank(3).signal(SIGCONT);
  job.rank(3).kill();
  expect_from_others(job, {3}, "rank 3 (pid " + std::to_string(job.rank(3).pid()));
}

// The forked child, like a data loader, inherits the connections and outlives its rank.
TEST_P(LargeMessages, FailWhenARankDiesButItsForkedChildHoldsTheConnections) {
  Job job = job_on(Hosts{0, 1, 1}, [](int rank, const Report& report) {
    std::vector<float> values(1 << 20, 1);
    const auto call = [&] {
      return hvd_allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_MAX,
                           nullptr);
    };
    hvd_status status = hvd_init();
    if (status == HVD_OK) status = call();
    if (rank == 2) libhvd::test::die_and_leave_a_child(report);
    while (status == HVD_OK) status = call();
    report(hvd_last_error());
    hvd_shutdown();  // passes the failure on to the other hosts
  });
  for (const int rank : {0, 1}) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(line.find("rank 2 (pid "), std::string::npos) << "rank " << rank << ": " << line;
  }
}

}  // namespace
