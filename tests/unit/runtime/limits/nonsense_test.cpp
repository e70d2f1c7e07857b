// What makes no sense: HVD_ variables are errors of hvd_init that name them, and a call that cannot
// go on is an error on all ranks.
#include "telling.hpp"

#include <cstdint>
#include <cstdlib>

#include <hvd/agree.h>

namespace libhvd::test {
namespace {

struct Variable {
  const char* name;
  const char* value;
};

constexpr Variable kNonsense[] = {
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

TEST(Nonsense, IsAnErrorThatNamesTheVariable) {
  for (const Variable& given : kNonsense) {
    Child rank([&](const Child::Tell& tell) {
      for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK", "RANK", "WORLD_SIZE", "HVD_STATUS"})
        ::unsetenv(name);
      ::setenv("HVD_RANK", "0", 1);
      ::setenv("HVD_SIZE", "1", 1);
      ::setenv("HVD_LOCAL_RANK", "0", 1);
      ::setenv("HVD_LOCAL_SIZE", "1", 1);
      ::setenv(given.name, given.value, 1);
      tell(text_of(hvd_init()));
      ::setenv(given.name, "", 1);  // as good as not set
      for (const char* name : {"HVD_RANK", "HVD_SIZE", "HVD_LOCAL_RANK", "HVD_LOCAL_SIZE"})
        ::unsetenv(name);
      tell(text_of(hvd_init()));
    });
    const std::string first = rank.line().value_or("nothing");
    const std::string wanted =
        std::to_string(HVD_ERROR_ENVIRONMENT) + " hvd_init: " + given.name + "=";
    EXPECT_TRUE(first.starts_with(wanted) && first.find(given.value) != std::string::npos)
        << given.name << "=" << given.value << ": " << first;
    EXPECT_EQ(rank.line(), "ok") << "without " << given.name << "=" << given.value;
  }
}

TEST(Nonsense, OfOneRankIsAnErrorOfAllWithinTheTimeLimit) {
  Job job(2,
          [](int rank, const Child::Tell& tell) {
            if (rank == 1) ::setenv("HVD_HOST_TIMEOUT", "never", 1);
            const hvd_status status = hvd_init();
            tell(status == HVD_OK ? "ok" : std::to_string(status));
          },
          {{"HVD_START_TIMEOUT", "1"}});
  EXPECT_EQ(job.rank(0).line(), std::to_string(HVD_ERROR_TIMEOUT));
  EXPECT_EQ(job.rank(1).line(), std::to_string(HVD_ERROR_ENVIRONMENT));
}

// It throws where the others have begun to wait for it.
TEST(Nonsense, ACallThatBreaksOffEndsTheJobsCollectives) {
  Signal initialised;  // rank 0, too: that would end with the job
  Job job(2, [&](int rank, const Child::Tell& tell) {
    hvd::init();
    rank == 0 ? initialised.give() : initialised.await();
    double value = 1;
    const std::size_t count = rank == 1 ? SIZE_MAX / 2 : 1;
    tell(text_of(hvd_average_metrics(&value, count, 1, nullptr)));
    tell(text_of(hvd_barrier(nullptr)));
  });
  const auto next = [&](int rank) { return job.rank(rank).line().value_or("nothing"); };
  EXPECT_TRUE(next(1).starts_with("8 hvd_average_metrics: ")) << "no memory for so many";
  const std::string words = "libhvd cannot continue in rank 1 (pid ";
  for (const std::string& said : {next(0), next(0), next(1)})
    EXPECT_NE(said.find(words), std::string::npos) << said;
}

}  // namespace
}  // namespace libhvd::test
