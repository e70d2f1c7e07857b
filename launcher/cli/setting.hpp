// A value that the command line, a config file or a template gives to one option. Plain values and
// functions, for one thread at a time.
#pragma once

#include "base/result.hpp"
#include "cli/option.hpp"

#include <string>
#include <vector>

namespace hvdrun::cli {

struct Setting {
  const Option* option = nullptr;
  std::string value;   // as Option::apply reads it
  std::string source;  // for --explain: "command line", "job.json:3"
  std::string named;   // for errors: "-np", "job.json:3: \"num-proc\""
};

// Returns a key; a later setting overrides earlier ones with the same key. It is the option's name,
// and for -x also the variable's.
std::string override_key(const Setting& setting);

// Applies settings in order, so that a later one overrides. Those of sbatch and salloc go to
// `batch`, and are ignored if that is null. Errors name the setting and its source.
Result<void> apply_settings(const std::vector<Setting>& settings, JobSpec& job,
                            BatchSpec* batch = nullptr);

}  // namespace hvdrun::cli
