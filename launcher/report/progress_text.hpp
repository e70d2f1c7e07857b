// The training's progress as the status line and the report show it. Pure functions.
#pragma once

#include "model/progress.hpp"
#include "model/report.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Returns "epoch 3/20", "step 1,204/9,380", "7,346 samples/s", "loss 0.12", "12 % waiting",
// "0:14 left", without what is not known.
std::vector<std::string> progress_fields(const Progress& progress);

// Returns "12:34 elapsed", "7.8 cores", "4 GPUs 83 % busy" for a training that reports nothing.
std::vector<std::string> use_fields(const UseNow& use, double seconds);

// Returns whether the rank has reported progress, with or without hvd_init.
bool reports_progress(const RankCounters& counters);

// Returns how far the training has come in the end: epochs, steps and loss of the lowest rank that
// has reported progress, the samples per second of all ranks from their first report to their last,
// and the share of all their time in which they waited. nullopt if no rank has reported progress.
std::optional<Progress> final_progress(const std::vector<RankReport>& ranks);

}  // namespace hvdrun
