// The output of `hvdrun jobs`, from squeue's records. Pure functions, for any thread; they cannot
// fail.
#pragma once

#include "slurm/job_record.hpp"

#include <cstddef>
#include <ctime>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the first `columns` characters of UTF-8 text. If the text is longer, the last of them is
// "…".
std::string cut_text(const std::string& text, std::size_t columns);

// Returns a header and a line for each job, with newlines; empty if there are no jobs. Cuts lines
// to fit a terminal of `columns` columns. With 0 they are not cut.
// `progress`: how far each is, or none for all; if one has some, there is a column for it.
std::string jobs_table(const std::vector<JobRecord>& jobs, std::time_t now, std::size_t columns,
                       const std::vector<std::string>& progress = {});

// Returns an array of objects. Durations are in seconds, times in seconds since 1970. What is
// unknown is null.
std::string jobs_json(const std::vector<JobRecord>& jobs);

}  // namespace hvdrun
