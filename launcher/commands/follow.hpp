// hvdrun follow: shows a job from the queue to its end, with its output. `hvdrun sbatch --follow`
// and `--wait` use it, too. For the main thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "commands/job_output.hpp"
#include "slurm/job_id.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Follows a job until it ends, or until SIGINT, SIGTERM or SIGHUP. After a signal the job
// continues, and a line says how to follow it again. Returns hvdrun's exit code: the job's own, by
// docs/reference/exit-codes.md, or 128 + the signal. From here on those signals are blocked and
// SIGPIPE is ignored, so the process does nothing else after this.
//
// `output` holds what was known of the job's files before it was submitted. With nullopt only the
// job's state is shown (`hvdrun sbatch --wait`).
//
// Errors: kExitUsage (the job is another user's, or SLURM knows no such job), kExitNotFound (there
// is no SLURM on this machine).
Result<int> follow_job(const JobId& id, std::optional<JobOutput> output,
                       const Environment& environment);

// `args` are the words after "follow". Returns the exit code, and the errors, of follow_job.
Result<int> run_follow(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
