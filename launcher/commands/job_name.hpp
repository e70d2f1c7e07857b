// The name and the comment that SLURM keeps of a job, from the program that it runs. Pure
// functions, for any thread; they cannot fail.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// Returns "hvdrun: python3 train.py --lr 0.1": one line, cut after 200 bytes. hvdrun jobs shows it.
std::string job_comment(const std::vector<std::string>& program);

// Returns the job's name if the user gives none: the program's file name. For an interpreter it is
// its script's.
std::string job_name_of(const std::vector<std::string>& program);

}  // namespace hvdrun
