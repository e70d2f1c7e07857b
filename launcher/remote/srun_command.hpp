// How agents are started by srun: its words and its environment. Pure functions.
//
// Sources: srun(1) of Slurm 20.11 to 24.05, and what was seen of 22.05.
#pragma once

#include "base/environment.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SrunOptions {
  std::string program = "srun";
  std::string job_id;      // of the allocation, as in SLURM_JOB_ID
  std::string agent_path;  // hvdrun on the hosts; absolute
};

// argv of one step: one agent on each of exactly these hosts.
//
// `gpus_per_host`: the job's GPUs on each of them. Without it a step inherits the job's, which is
// all of them but where the job asked by another unit than the host (--gpus, --gpus-per-task) or by
// nothing but --exclusive: there SLURM gives a step fewer, or refuses it.
std::vector<std::string> srun_command(const SrunOptions& options,
                                      const std::vector<std::string>& hosts,
                                      std::optional<int> gpus_per_host);

// argv of one step that sweeps each of these hosts: see run_sweep(). `agents`: their numbers.
std::vector<std::string> srun_sweep_command(const SrunOptions& options,
                                            const std::vector<std::string>& hosts,
                                            const std::string& job_id,
                                            const std::vector<std::size_t>& agents);

// The caller's environment, less what srun would take for options of the step, and less what says
// of the caller where it runs: on a host, in a step, as a task. "NAME=VALUE", sorted.
std::vector<std::string> srun_environment(const Environment& caller);

}  // namespace hvdrun
