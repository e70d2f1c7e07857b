// Which file a batch job's output goes to. Pure functions.
#pragma once

#include "slurm/queue/job_record.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

struct OutputPaths {
  std::string out;  // absolute; empty: the job has no script, and so no file of its own
  std::string err;  // empty: the same as `out`
};

// With sbatch's patterns (sbatch(1), FILENAME PATTERN) put in as slurmd does. %N, the name of the
// host that the script runs on, is known only once the job has it.
OutputPaths output_paths(const JobRecord& job);

}  // namespace hvdrun
