#include "bootstrap/bootstrap.hpp"

#include "common/variables.h"

#include <cstdio>

namespace libhvd {
namespace {

class SingleBootstrap final : public Bootstrap {
 public:
  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override {
    return std::vector<std::string>{own};
  }

 private:
  RankInfo info_{0, 1, 0, 1, 0, 1};
};

// Variables of launchers that start several processes and leave it to each to find the others.
struct ForeignLauncher {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* instead;  // what to type
};

// Source: srun(1), output environment variables; those of PMI 1, by which MPICH's mpiexec starts;
// mpirun(1) of Open MPI, whose ranks have PMIx too unless it was taken away.
constexpr ForeignLauncher kForeignLaunchers[] = {
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "in the job hvdrun instead of srun, or srun --mpi=pmix"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "hvdrun -np N instead of mpiexec -n N"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "hvdrun -np N instead of mpirun -n N"},
};

// Warns that each of several processes is a job of its own: in rank 0. Other ranks leave it to that
// one, if the launcher has also given them a number on their host: without it, no other process may
// see the variables. One process of a step of SLURM, and a batch script, are single runs: they have
// SLURM_STEP_NUM_TASKS=1, or none.
void warn_of_separate_runs(const Environment& environment) {
  for (const auto& launcher : kForeignLaunchers) {
    const auto size = read_integer(environment, launcher.size, 2, 1'000'000'000);
    const auto rank = read_integer(environment, launcher.rank, 0, 1'000'000'000);
    if (!size.ok() || !*size || !rank.ok()) continue;
    if (rank->value_or(0) != 0 && is_set(environment, launcher.local_rank)) return;
    std::fprintf(
        stderr,
        "hvd: warning: %lld processes were started together (%s), but hvd cannot bring them "
        "together: each is rank 0 of 1, a separate run of the program. Type %s\n",
        static_cast<long long>(**size), launcher.size, launcher.instead);
    return;
  }
}

}  // namespace

Error start_cancelled() {
  return fail(HVD_ERROR_PEER, "the start was cancelled, because other ranks cannot take part");
}

std::unique_ptr<Bootstrap> open_single_bootstrap() {
  return std::make_unique<SingleBootstrap>();
}

Result<std::unique_ptr<Bootstrap>> open_bootstrap(const Environment& environment,
                                                  const BootstrapOptions& options) {
  if (is_set(environment, "PMIX_NAMESPACE") && is_set(environment, "PMIX_RANK") &&
      !leaves_pmix_to_mpi(environment)) {
    return open_pmix_bootstrap(environment, options);
  }
  for (const char* name : {HVD_ENV_RANK, HVD_ENV_SIZE, "RANK", "WORLD_SIZE"}) {
    if (is_set(environment, name))
      return or_cancelled(open_environment_bootstrap(environment, options), options.cancel);
  }
  HVD_CHECK(choose_ranks(options.ranks, RankInfo()));  // the only possible list is {0}
  warn_of_separate_runs(environment);
  return open_single_bootstrap();
}

}  // namespace libhvd
