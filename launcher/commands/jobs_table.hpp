// What `hvdrun jobs` prints, from what squeue said. Pure functions.
#pragma once

#include "slurm/queue/job_record.hpp"

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

}  // namespace hvdrun
