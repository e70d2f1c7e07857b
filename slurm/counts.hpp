// Reads the numbers in SLURM's variables and answers: tasks or CPUs by host, and GPUs.
// Pure functions, for any thread. Errors are one line that quotes what is wrong.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns one count for each host, as in SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE:
// "4(x2),3" is 4, 4, 3. Errors (kExitUsage): a malformed list; a count below 1; a list for more
// than kMaxHosts hosts, which is checked before memory is allocated.
Result<std::vector<int>> expand_counts(std::string_view text);

// Returns the number of GPUs in the value of --gpus or a similar option, with or without kinds:
// "4", "a100:4", "gpu:a100:4", "a100:2,v100:2". May be 0. Error (kExitUsage): a malformed value.
Result<int> count_gpus(std::string_view text);

// Returns the number of GPUs in generic resources as SLURM prints them:
// "gpu:a100:4(IDX:0-3),gpu:v100:1(S:0,2),nvme:1". Returns 0 for "(null)", and nullopt if a count
// cannot be read.
std::optional<int> count_gpus_of_gres(std::string_view gres);

// Returns how many GPUs a job has on each of `hosts`. `description` is what `scontrol show job -d`
// prints about the job, with lines such as
// "Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:4(IDX:0-3)". Errors: a host is not in it; a line
// has no GRES, or one that cannot be read; a malformed list of hosts (expand_host_list).
Result<std::vector<int>> count_gpus_by_host(std::string_view description,
                                            const std::vector<std::string>& hosts);

}  // namespace hvdrun
