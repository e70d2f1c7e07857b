// How far a training in a batch job is, from the line that --progress log prints into the job's
// output every minute. For any thread; a file that cannot be read has no progress.
#pragma once

#include "slurm/job_record.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

// Returns the newest progress in the text: "epoch 3/20, step 1,204/9,380"; empty if there is none.
std::string last_progress(std::string_view text);

// Returns that of the end of the job's output, if it runs and its file is visible here.
std::string progress_of(const JobRecord& job);

}  // namespace hvdrun
