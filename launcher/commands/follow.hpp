// hvdrun follow: a job from the queue to its end, with its output. Also what stands behind
// `hvdrun sbatch --follow` and `--wait`.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "commands/job_output.hpp"
#include "slurm/queue/job_id.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Until the job ends, or SIGINT, SIGTERM or SIGHUP comes: then the job goes on, and how to come
// back is said. The value is the exit code for hvdrun: the job's own, by docs/exit-codes.md, or 128
// + the signal. From here on those signals are blocked and SIGPIPE is ignored: it is the last thing
// that a process does. `output`: what is known of its files from before it was submitted; none:
// only how the job stands is shown (`hvdrun sbatch --wait`). Errors: kExitUsage (not the caller's
// job; SLURM knows no such job), kExitNotFound (there is no SLURM).
Result<int> follow_job(const JobId& id, std::optional<JobOutput> output,
                       const Environment& environment);

// `args` are the words behind "follow".
Result<int> run_follow(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
