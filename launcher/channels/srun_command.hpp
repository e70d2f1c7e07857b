// How agents are started by srun: the arguments of the command. Pure functions,
// for any thread; they cannot fail.
//
// Sources: srun(1) of Slurm 20.11 to 24.05, and what was seen of 22.05.
#pragma once

#include "channels/sent_agent.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SrunOptions {
  std::string program = "srun";
  std::string job_id;      // of the allocation, as in SLURM_JOB_ID
  std::string agent_path;  // hvdrun on the hosts; absolute
  // The agent that is used instead if it is in a host's cache folder; nullopt: none.
  std::optional<SentAgent> sent;
  // The agents' step does not end when one of its hosts fails.
  bool survives_hosts = false;
};

// Returns the argv of one step with one agent on each of exactly these hosts.
//
// `gpus_per_host`: the job's GPUs on each host. Without it a step inherits the job's request. That
// is all GPUs, unless the job requested them by another unit than the host (--gpus,
// --gpus-per-task) or by --exclusive only; then SLURM gives the step fewer, or refuses it.
std::vector<std::string> srun_command(const SrunOptions& options,
                                      const std::vector<std::string>& hosts,
                                      std::optional<int> gpus_per_host);

// Returns the argv of one step that runs this command on each of these hosts.
std::vector<std::string> srun_step_command(const SrunOptions& options,
                                           const std::vector<std::string>& hosts,
                                           const std::vector<std::string>& command);

// Returns the argv of one step that cleans up each of these hosts by run_cleanup(). `agents`: their
// numbers.
std::vector<std::string> srun_cleanup_command(const SrunOptions& options,
                                              const std::vector<std::string>& hosts,
                                              const std::string& job_id,
                                              const std::vector<std::size_t>& agents);

}  // namespace hvdrun
