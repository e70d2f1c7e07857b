// Which part of a scheduler's job this process belongs to. A job that goes back into the queue runs
// again under the same id; each of its runs is a part. Functions for any thread.
#pragma once

#include "base/result.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

struct JobPart {
  std::string job;  // as the scheduler's commands take it: "12", "12_3"; empty outside a job
  int number = 0;   // how often the job went back into the queue before
};

// Keeps what the part before this one wrote to `file`, before this part replaces it: renames F to
// F.job12.part0, and F.rank3 to F.job12.part0.rank3. Does nothing in the first part, if there is no
// such file, or if the name is taken, because then this part wrote the file. Error (kExitUsage): a
// file cannot be renamed.
Result<void> keep_earlier_part(const std::filesystem::path& file, const JobPart& part);

}  // namespace hvdrun
