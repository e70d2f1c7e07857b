// What a job runs, as SLURM keeps it for people who list jobs: hvdrun jobs shows it.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// "hvdrun: python3 train.py --lr 0.1": one line, cut where it is long.
std::string job_comment(const std::vector<std::string>& program);

// The job's name where the user gives none: the program's, and of an interpreter its script's.
std::string job_name_of(const std::vector<std::string>& program);

}  // namespace hvdrun
