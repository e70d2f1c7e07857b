// The jobs of this machine in the output of `hvdrun jobs`. Pure functions, for any thread; they
// cannot fail.
#pragma once

#include "control/running_jobs.hpp"

#include <cstddef>
#include <ctime>
#include <string>
#include <vector>

namespace hvdrun {

// Returns a header and a line for each job, with newlines; empty if there are no jobs. Cuts lines
// to fit a terminal of `columns` columns. With 0 they are not cut.
std::string jobs_here_table(const std::vector<RunningJob>& jobs, std::time_t now,
                            std::size_t columns);

// Returns an array of objects: what each job says of itself.
std::string jobs_here_json(const std::vector<RunningJob>& jobs);

}  // namespace hvdrun
