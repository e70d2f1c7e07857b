#include "cli/validate.hpp"

#include <string>

namespace hvdrun {
namespace {

Result<void> check_rank(const char* option, int rank, int size) {
  if (rank < size) return {};
  const std::string last =
      size == 1 ? "its only rank is 0" : "its ranks are 0-" + std::to_string(size - 1);
  return fail(std::string(option) + " names rank " + std::to_string(rank) + ", but the job has " +
                  std::to_string(size) + (size == 1 ? " rank: " : " ranks: ") + last,
              kExitUsage);
}

}  // namespace

Result<void> validate_ranks(const JobSpec& job, int size) {
  if (job.output.only_ranks && !job.output.only_ranks->empty())
    HVD_CHECK(check_rank("--only-rank", job.output.only_ranks->highest(), size));
  if (job.input.to == InputSpec::To::rank) HVD_CHECK(check_rank("--stdin", job.input.rank, size));
  return {};
}

}  // namespace hvdrun
