// How ranks are described in SLURM's variables; see slurm_scheduler.hpp.
#include "base/host_list.hpp"
#include "schedulers/slurm/slurm_scheduler.hpp"
#include "slurm/job_environment.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

constexpr std::array<std::string_view, 1> kUnknownToNewcomers{"SLURM_GTIDS"};

// Returns the end of the hosts with ranks.
auto end_of_ranks(const Placement& placement) {
  return placement.hosts.begin() + static_cast<std::ptrdiff_t>(placement.hosts_with_ranks());
}

// SLURM's notation for a number a host: 4,4,3 is "4(x2),3".
std::string fold_counts(const Placement& placement) {
  std::vector<std::string> parts;
  const auto last = end_of_ranks(placement);
  for (auto at = placement.hosts.begin(); at != last;) {
    const auto count = at->ranks.size();
    const auto end =
        std::find_if(at, last, [&](const auto& host) { return host.ranks.size() != count; });
    const auto times = end - at;
    parts.push_back(times == 1 ? std::to_string(count) : fmt::format("{}(x{})", count, times));
    at = end;
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string ranks_of(const HostPlacement& host) {
  std::vector<int> ranks;
  for (const auto& rank : host.ranks) ranks.push_back(rank.rank);
  return fmt::format("{}", fmt::join(ranks, ","));
}

// Rank 0's host comes first: JAX and Lightning take the first one for it.
std::string host_list(const Placement& placement) {
  std::vector<std::string> hosts;
  for (auto at = placement.hosts.begin(); at != end_of_ranks(placement); ++at)
    hosts.push_back(at->host);
  const auto folded = fold_hosts(hosts);
  const auto again = expand_host_list(folded);
  return again && *again == hosts ? folded : fmt::format("{}", fmt::join(hosts, ","));
}

}  // namespace

std::string step_id(const Environment& caller, const std::string& job_id) {
  if (auto step = step_of_srun(caller); !step.empty()) return step;
  // Four digits: some programs add the step to the number of a port.
  constexpr unsigned kFirst = 1000;
  constexpr unsigned kCount = 9000;
  unsigned number = 0;
  for (const unsigned char c : job_id) number = number * 31 + c;
  return std::to_string(kFirst + number % kCount);
}

std::vector<RankVariable> SlurmScheduler::rank_variables(const DescribedRank& described) const {
  const auto& [caller, placement, host_index, rank, job_id, launch_address, is_cyclic] = described;
  const auto& host = placement.hosts[host_index];
  std::vector<RankVariable> variables;
  const auto add = [&](std::initializer_list<const char*> names, const std::string& value,
                       std::string_view reason) {
    for (const char* name : names) variables.push_back({name, value, reason});
  };
  add({"SLURM_PROCID"}, std::to_string(rank.rank), "this rank, in SLURM's words");
  add({"SLURM_LOCALID"}, std::to_string(rank.local_rank), "local rank, in SLURM's words");
  add({"SLURM_NODEID"}, std::to_string(host_index), "index of this host, in SLURM's words");
  add({"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}, std::to_string(placement.size),
      "number of ranks of this job, not of the allocation");
  add({"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"},
      std::to_string(placement.hosts_with_ranks()),
      "number of hosts of this job, not of the allocation");
  add({"SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"}, host_list(placement),
      "hosts of this job, rank 0's first");
  add({"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"}, fold_counts(placement),
      "ranks of this job on each host");
  add({"SLURM_GTIDS"}, ranks_of(host), "ranks of this host");
  add({"SLURM_STEP_ID", "SLURM_STEPID"}, step_id(caller, job_id),
      "a number for this job, or srun's step around it");
  add({"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"}, launch_address,
      "address of rank 0's host");
  add({"SLURM_DISTRIBUTION"}, is_cyclic ? "cyclic" : "block", "--map-by, in SLURM's words");
  if (placement.homogeneous())
    add({"SLURM_NTASKS_PER_NODE"}, std::to_string(host.ranks.size()),
        "ranks on every host of this job");
  return variables;
}

std::span<const std::string_view> SlurmScheduler::unknown_to_newcomers() const {
  return kUnknownToNewcomers;
}

}  // namespace hvdrun
