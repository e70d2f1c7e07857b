// The numbers in SLURM's variables that are more than a number. Pure functions; errors (kExitUsage)
// are one line that quotes what is wrong.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// One number a host, as in SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE: "4(x2),3" is 4, 4, 3.
// All are 1 or more; there are at most kMaxHosts (host_list.hpp), known before memory is taken.
Result<std::vector<int>> expand_counts(std::string_view text);

// A number of GPUs as --gpus and its kin take it, with or without kinds: "4", "a100:4",
// "gpu:a100:4", "a100:2,v100:2". May be 0.
Result<int> count_gpus(std::string_view text);

// The same of generic resources as SLURM prints them:
// "gpu:a100:4(IDX:0-3),gpu:v100:1(S:0,2),nvme:1". 0 of "(null)"; none where a count cannot be read.
std::optional<int> count_gpus_of_gres(std::string_view gres);

// How many GPUs a job has on each of `hosts`, from what `scontrol show job -d` prints of it:
// "Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:4(IDX:0-3)". Error: a host is not in there, or the
// line has no GRES.
Result<std::vector<int>> count_gpus_by_host(std::string_view description,
                                            const std::vector<std::string>& hosts);

}  // namespace hvdrun
