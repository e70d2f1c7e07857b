#include "slurm/job_environment.hpp"

#include <charconv>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string text_of(const Environment& environment, std::string_view name) {
  const std::string* value = find_variable(environment, name);
  return value == nullptr ? std::string() : *value;
}

// The count in the first of these variables that is set.
Result<std::optional<int>> count_of(const Environment& environment,
                                    std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const std::string* value = find_variable(environment, name);
    if (value == nullptr) continue;
    int count = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, count);
    if (error != std::errc() || stop != end || count < 1)
      return fail(
          fmt::format("{}=\"{}\" is no count of 1 or more; correct it, unset it, or say with "
                      "-H localhost:N how many ranks to start here",
                      name, *value),
          kExitUsage);
    return std::optional<int>(count);
  }
  return std::optional<int>();
}

}  // namespace

Result<std::optional<SlurmJob>> slurm_job(const Environment& environment) {
  const std::string* id = find_variable(environment, "SLURM_JOB_ID");
  if (id == nullptr || id->empty()) return std::optional<SlurmJob>();

  SlurmJob job;
  job.id = *id;
  HVD_TRY(const auto nodes, count_of(environment, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}));
  job.nodes = nodes.value_or(1);
  job.node_list = text_of(environment, "SLURM_JOB_NODELIST");
  job.node_name = text_of(environment, "SLURMD_NODENAME");
  HVD_TRY(job.tasks, count_of(environment, {"SLURM_NTASKS", "SLURM_NPROCS"}));
  HVD_TRY(job.cpus_per_task, count_of(environment, {"SLURM_CPUS_PER_TASK"}));
  job.heterogeneous = find_variable(environment, "SLURM_HET_SIZE") != nullptr;
  return std::optional<SlurmJob>(std::move(job));
}

}  // namespace hvdrun
