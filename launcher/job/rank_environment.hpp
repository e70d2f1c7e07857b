// The environment of the ranks: docs/reference/environment.md's contract with a rank. Pure
// functions.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "job/frameworks.hpp"
#include "job/plan.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace hvdrun {

struct JobIdentity {
  std::string id;   // HVD_JOB_ID: the same in all attempts of a job
  std::string key;  // HVD_JOB_KEY: new in each attempt, so that no rank of an earlier one can join
  std::string master_address;
  std::string master_port;
  int restart_count = 0;  // HVD_RESTART_COUNT
  // In the names of folders, on all hosts. New in each attempt: another user could create a folder
  // with a name that is known.
  std::string folder_id = {};
  // New in each attempt. The job's id cannot serve, because it is in names of files that every user
  // can list.
  std::string pmix_namespace = {};
  std::string rendezvous_port = {};  // HVD_PORT
  std::string jax_port = {};         // JAX_COORDINATOR_PORT
  RankPorts ports = {};
  std::string launch_address = {};  // the host of MASTER_ADDR, as a number
};

HoldPortsMessage ports_to_hold(const JobSpec& spec, const Placement& placement,
                               std::size_t host_index);

// Returns the identity with MASTER_ADDR and the ports. Those that the user set with -x take
// precedence.
JobIdentity with_ports(JobIdentity identity, RankPorts ports, const JobSpec& spec);

// Returns what all ranks share, "NAME=VALUE" each: the caller's environment without the variables
// by which an outer launcher describes its own process; PYTHONUNBUFFERED=1 unless it is set; then
// the options of libhvd's collectives; then the user's -x, which takes precedence. --horovod adds
// its folders to PYTHONPATH, before and after the user's.
// `interfaces`: those that --network-interface chooses on the host; empty: as the user has written.
std::vector<std::string> job_environment(const Environment& caller, const JobSpec& spec,
                                         const std::vector<std::string>& interfaces = {});

// Removes from `variables`, which are for another host, those that describe this host
// (CUDA_VISIBLE_DEVICES, XDG_RUNTIME_DIR), unless the user set them with -x. Returns their names:
// over there they keep the values that the agent was started with.
std::vector<std::string> leave_host_variables(const JobSpec& spec,
                                              std::vector<std::string>& variables);

// Returns the variables of one rank alone. In a scheduler's job its variables describe the rank
// too. For those, and for those of --for, the user's -x takes precedence.
std::vector<RankVariable> rank_environment(const Environment& caller, const JobSpec& spec,
                                           const JobIdentity& job, const Placement& placement,
                                           std::size_t host_index, const RankPlacement& rank);

// Returns the text of --print-env: a line, with its reason, for each variable that a rank gets and
// that is not the caller's, and for each of the caller's that it does not get. `own_interfaces`:
// those that --network-interface chooses on this machine. Error (kExitUsage): it is not known where
// the rank runs.
Result<std::string> environment_text(const JobSpec& spec, const Plan& plan,
                                     const Environment& caller,
                                     const std::vector<std::string>& own_interfaces = {});

}  // namespace hvdrun
