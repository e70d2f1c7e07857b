// The jobs that --dependency names, and whether SLURM still knows them. SLURM does not wait for a
// job that it does not know, and does not say so. For the main thread; dependency_warnings runs
// squeue and blocks. Nothing here fails: without an answer of SLURM there is no warning.
#pragma once

#include "base/environment.hpp"
#include "model/batch_spec.hpp"
#include "slurm/job_id.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns the jobs of a --dependency of sbatch(1), such as "afterok:12:13_4,after:14+5". Leaves out
// words that are no job, such as "singleton".
std::vector<JobId> jobs_of_dependency(std::string_view text);

// Returns a warning for each job of the request's --dependency that SLURM does not know.
std::vector<std::string> dependency_warnings(const BatchSpec& batch,
                                             const Environment& environment);

}  // namespace hvdrun
