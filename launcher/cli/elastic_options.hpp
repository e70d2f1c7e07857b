// The options of jobs that continue when ranks are lost (--min-np): a part of the table of options,
// and what is checked when all are known.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/option.hpp"
#include "model/job_spec.hpp"

#include <span>

namespace hvdrun::cli {

std::span<const Option> elastic_option_table();

// Fills in what follows from other options. Error (kExitUsage): options that do not fit together,
// or do not fit the environment of the ranks.
Result<void> settle_elastic(JobSpec& spec, const Environment& environment);

}  // namespace hvdrun::cli
