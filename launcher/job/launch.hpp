// The environment of the ranks: the contract with a rank in docs/environment.md, as pure functions.
#pragma once

#include "base/environment.hpp"
#include "job/agents.hpp"
#include "job/frameworks.hpp"
#include "job/plan.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

struct JobIdentity {
  std::string id;   // HVD_JOB_ID: the same in all tries of a job
  std::string key;  // HVD_JOB_KEY: new in each, so that nothing of an earlier try can join
  std::string master_address;
  std::string master_port;
  int restart_count = 0;  // HVD_RESTART_COUNT
  // Of folders, on all hosts. New in each try: another user could take a name that has been seen.
  std::string folder_id = {};
  // New in each try. The id cannot serve: it stands in names of files that every user can list.
  std::string pmix_namespace = {};
  std::string rendezvous_port = {};  // HVD_PORT
  RankPorts ports = {};
};

HoldPortsMessage ports_to_hold(const JobSpec& spec, const Placement& placement,
                               std::size_t host_index);

// With MASTER_ADDR and the ports; those that the user chose with -x win.
JobIdentity with_ports(JobIdentity identity, RankPorts ports, const JobSpec& spec);

// What all ranks share, "NAME=VALUE" each: the caller's environment, less what an outer launcher
// said about its own process, with PYTHONUNBUFFERED=1 unless it is set, over it the options of
// libhvd's collectives, and over all the user's -x. With --horovod its folders stand on PYTHONPATH,
// before and behind what the user has there.
std::vector<std::string> job_environment(const Environment& caller, const JobSpec& spec);

// For another host: takes the variables out of `variables` that say something about this one
// (CUDA_VISIBLE_DEVICES, XDG_RUNTIME_DIR), unless the user set them with -x. Returns their names:
// there they have the values that the agent was started with.
std::vector<std::string> leave_host_variables(const JobSpec& spec,
                                              std::vector<std::string>& variables);

// What is one rank's own. `caller` is asked for whether the job runs under SLURM, whose variables
// then say the truth for the rank. Of SLURM's and those of --for the user's -x wins.
std::vector<RankVariable> rank_environment(const Environment& caller, const JobSpec& spec,
                                           const JobIdentity& job, const Placement& placement,
                                           std::size_t host_index, const RankPlacement& rank);

// --print-env: what a rank of the plan gets that is not the caller's, a line each with its reason,
// and what of the caller's it does not get. Error (kExitUsage): where the rank runs is not known.
Result<std::string> environment_text(const JobSpec& spec, const Plan& plan,
                                     const Environment& caller);

// What each agent is told to start: pure functions of the job and its placement.

// The ranks that read hvdrun's stdin.
std::vector<int> input_receivers(const InputSpec& input, int size);

// For the agent of one host.
LaunchMessage launch_message(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                             const JobContext& context, std::size_t host_index);

// Makes the message for the agent of a host a frame's payload. Error (kExitUsage): it is larger
// than that may be.
Result<std::string> pack_for(const std::string& host, const LaunchMessage& message);

}  // namespace hvdrun
