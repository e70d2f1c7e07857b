// The numbers in SLURM's variables that are more than a number. Pure functions; errors (kExitUsage)
// are one line that quotes what is wrong.
#pragma once

#include "base/result.hpp"

#include <string_view>
#include <vector>

namespace hvdrun {

// One number a host, as in SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE: "4(x2),3" is 4, 4, 3.
// All are 1 or more; there are at most kMaxHosts (host_list.hpp), known before memory is taken.
Result<std::vector<int>> expand_counts(std::string_view text);

// A number of GPUs as --gpus and its kin take it, with or without kinds: "4", "a100:4",
// "gpu:a100:4", "a100:2,v100:2". May be 0.
Result<int> count_gpus(std::string_view text);

}  // namespace hvdrun
