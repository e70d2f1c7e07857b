// What to type or change so that a job does not fail again in the same way: for failures whose
// messages show the remedy. Pure functions.
#pragma once

#include "model/job_spec.hpp"
#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns lines that follow the report, for the rank that failed first; none if its messages show
// no remedy. They name:
// - the module horovod or hvd that Python has not found;
// - the --for with which the program's framework finds its ranks;
// - an abort at the end of a program of PyTorch, which may have finished its work.
std::vector<std::string> advice(const Report& report, const JobSpec& spec);

}  // namespace hvdrun
