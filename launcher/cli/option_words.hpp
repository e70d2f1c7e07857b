// What an unknown option may mean, by the words of its name: "--num-ranks" and "--nprocs" are about
// ranks, "--stall-time" has words of "--stall-check-warning-time-seconds". For spellings that are
// no slip of a known option and are in no table of other launchers. Pure functions, for any thread.
#pragma once

#include "cli/option_sets.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// Returns the words of an option's spelling in lower case and the singular: "num", "rank" for
// "--num_ranks"; also "rank" for "--nranks", and "rank", "per", "node" for "--ranksPerNode".
std::vector<std::string> words_of_option(std::string_view spelling);

// Returns whether the words of the spelling speak of something else than the known option that it
// looks like: "--gpus-per-rank" is no slip of "--cpus-per-rank", and "--elastic" not the beginning
// of "--elastic-timeout".
bool speaks_of_another(std::string_view spelling, std::string_view known);

// Returns what to use, for an error: "; for ranks: -np N", or "; did you mean --max-restarts?".
// Empty if no word says anything. In a SLURM job it does not say how to name hosts.
std::string answer_by_words(std::string_view spelling, const OptionSet& options,
                            bool has_scheduler);

}  // namespace hvdrun::cli
