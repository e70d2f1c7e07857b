// What to type for a batch script that hvdrun sbatch does not take. A pure function, for any
// thread.
#pragma once

#include "cli/words.hpp"

#include <span>
#include <string>
#include <vector>

namespace hvdrun {

// Returns "sbatch --time=5 ./job.sh 1", with what SLURM's sbatch has of the options that were
// typed. `words` are the script and its arguments. Options for the submission count after the
// script, too.
std::string sbatch_line(const std::vector<cli::ParsedOption>& options,
                        std::span<const std::string> words);

}  // namespace hvdrun
