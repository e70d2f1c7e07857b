// What `hvdrun jobs` prints, from what squeue said. Pure functions.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/job_record.hpp"

#include <cstddef>
#include <ctime>
#include <string>
#include <vector>

namespace hvdrun {

// A header and a line a job, newlines included; empty where there is none. With `columns` lines
// are cut so that they fit a terminal of that width; 0: as long as they are.
std::string jobs_table(const std::vector<JobRecord>& jobs, std::time_t now, std::size_t columns);

// An array of objects; times are seconds, moments seconds since 1970, what is not known is null.
std::string jobs_json(const std::vector<JobRecord>& jobs);

// hvdrun jobs: the caller's jobs in SLURM's queue.

// `args` are the words behind "jobs". Prints; returns the exit code. Errors: kExitUsage,
// kExitNotFound where there is no SLURM, kExitLauncher where it does not answer.
Result<int> run_jobs(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
