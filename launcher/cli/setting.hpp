// One option given a value somewhere: on the command line or in a config file.
#pragma once

#include "base/result.hpp"
#include "cli/option_table.hpp"

#include <string>
#include <vector>

namespace hvdrun::cli {

struct Setting {
  const Option* option = nullptr;
  std::string value;   // as Option::apply reads it
  std::string source;  // for --explain: "command line", "job.json:3"
  std::string named;   // for errors: "-np", "job.json:3: \"num-proc\""
};

// What a later setting overrides an earlier one of: the option's name; of -x, with the variable's.
std::string override_key(const Setting& setting);

// Applies settings in order, so that a later one overrides. Those of sbatch and salloc go to
// `batch`, and count for nothing where that is null. Errors name the setting and its source.
Result<void> apply_settings(const std::vector<Setting>& settings, JobSpec& job,
                            BatchSpec* batch = nullptr);

}  // namespace hvdrun::cli
