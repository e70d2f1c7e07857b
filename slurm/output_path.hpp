// The paths of a batch job's output files. Pure functions, for any thread; they cannot fail.
#pragma once

#include "slurm/job_record.hpp"

#include <string>

namespace hvdrun {

struct OutputPaths {
  std::string out;  // absolute; empty: the job has no script, and therefore no file of its own
  std::string err;  // absolute; empty: the same as `out`
};

// Returns the paths with sbatch's patterns (sbatch(1), FILENAME PATTERN) replaced as slurmd does.
// %N, the name of the host that the script runs on, is empty until the job has that host.
OutputPaths output_paths(const JobRecord& job);

}  // namespace hvdrun
