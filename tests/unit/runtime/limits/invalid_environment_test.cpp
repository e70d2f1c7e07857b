// Invalid HVD_ variables make hvd_init fail and name the variable. A call that cannot continue
// fails on all ranks.
#include "reporting.hpp"

#include <cstdint>
#include <cstdlib>

#include <hvd/agree.h>

namespace libhvd::test {
namespace {

struct Variable {
  const char* name;
  const char* value;
};

constexpr Variable kInvalid[] = {
    {"HVD_RANK", "first"},
    {"HVD_RANK", "-1"},
    {"HVD_RANK", "99999999999999999999"},
    {"HVD_SIZE", "0"},
    {"HVD_SIZE", "1.5"},
    {"HVD_LOCAL_RANK", "x"},
    {"HVD_LOCAL_SIZE", "-2"},
    {"HVD_NODE_RANK", "one"},
    {"HVD_START_TIMEOUT", "0"},
    {"HVD_START_TIMEOUT", "soon"},
    {"HVD_HOST_TIMEOUT", "-1"},
    {"HVD_HOST_TIMEOUT", "4s"},
    {"HVD_RESTART_COUNT", "twice"},
    {"HVD_STATUS", "nowhere"},
    {"HVD_STATUS", "/dev/null@7"},
};

TEST(InvalidEnvironment, FailsInitWithTheNameOfTheVariable) {
  for (const Variable& given : kInvalid) {
    Child rank([&](const Child::Report& report) {
      for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK", "RANK", "WORLD_SIZE", "HVD_STATUS"})
        ::unsetenv(name);
      ::setenv("HVD_RANK", "0", 1);
      ::setenv("HVD_SIZE", "1", 1);
      ::setenv("HVD_LOCAL_RANK", "0", 1);
      ::setenv("HVD_LOCAL_SIZE", "1", 1);
      ::setenv(given.name, given.value, 1);
      report(code_and_text_of(hvd_init()));
      ::setenv(given.name, "", 1);  // the same as not set
      for (const char* name : {"HVD_RANK", "HVD_SIZE", "HVD_LOCAL_RANK", "HVD_LOCAL_SIZE"})
        ::unsetenv(name);
      report(code_and_text_of(hvd_init()));
    });
    const std::string first = rank.line().value_or("nothing");
    const std::string wanted =
        std::to_string(HVD_ERROR_ENVIRONMENT) + " hvd_init: " + given.name + "=";
    EXPECT_TRUE(first.starts_with(wanted) && first.find(given.value) != std::string::npos)
        << given.name << "=" << given.value << ": " << first;
    EXPECT_EQ(rank.line(), "ok") << "without " << given.name << "=" << given.value;
  }
}

TEST(InvalidEnvironment, OfOneRankFailsInitOnEveryRankWithinTheTimeout) {
  Job job(2,
          [](int rank, const Child::Report& report) {
            if (rank == 1) ::setenv("HVD_HOST_TIMEOUT", "never", 1);
            const hvd_status status = hvd_init();
            report(status == HVD_OK ? "ok" : std::to_string(status));
          },
          {{"HVD_START_TIMEOUT", "1"}});
  EXPECT_EQ(job.rank(0).line(), std::to_string(HVD_ERROR_TIMEOUT));
  EXPECT_EQ(job.rank(1).line(), std::to_string(HVD_ERROR_ENVIRONMENT));
}

// Rank 1 throws in a call in which the others wait for it.
TEST(CallThatThrows, FailsTheOtherRanksAndAllLaterCalls) {
  Signal initialised;  // of rank 0: its hvd_init would fail with the job
  Job job(2, [&](int rank, const Child::Report& report) {
    hvd::init();
    rank == 0 ? initialised.notify() : initialised.await();
    double value = 1;
    const std::size_t count = rank == 1 ? SIZE_MAX / 2 : 1;
    report(code_and_text_of(hvd_average_metrics(&value, count, 1, nullptr)));
    report(code_and_text_of(hvd_barrier(nullptr)));
  });
  const auto next = [&](int rank) { return job.rank(rank).line().value_or("nothing"); };
  EXPECT_TRUE(next(1).starts_with("8 hvd_average_metrics: ")) << "no memory for so many";
  const std::string wanted = "libhvd cannot continue in rank 1 (pid ";
  for (const std::string& line : {next(0), next(0), next(1)})
    EXPECT_NE(line.find(wanted), std::string::npos) << line;
}

}  // namespace
}  // namespace libhvd::test
