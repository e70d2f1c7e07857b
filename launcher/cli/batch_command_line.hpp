// The command lines of `hvdrun sbatch` and `hvdrun salloc`: hvdrun's own options, those that say
// what to request from SLURM, and the program. For one thread at a time.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/command_line.hpp"
#include "cli/words.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

// What the user wants of SLURM.
struct BatchInvocation {
  enum class Action { run, help, explain };
  Action action = Action::run;
  std::string text;  // of help and explain: what to print, newline included
  JobSpec job;       // what hvdrun does in the allocation; its program is not looked up
  BatchSpec batch;
  // The options for the hvdrun that starts the ranks, as the user typed them. Those that have their
  // effect on the allocation or the script are left out, also -np, --nnodes and --cpus-per-rank.
  std::vector<std::string> hvdrun_options;
  std::vector<cli::ParsedOption> uses;  // all options as they were typed
  std::vector<std::string> command;     // empty: no program was given
  std::vector<std::string> notes;       // for the user, one line each, without newline
};

// A template's default. Every config file overrides it.
struct DefaultSetting {
  std::string name;    // the option's
  std::string value;   // as in Setting
  std::string source;  // "cte-power.sbatch:4"
};

// Returns the defaults of the template that the BatchSpec names.
using FindDefaults = std::function<Result<std::vector<DefaultSetting>>(const BatchSpec&)>;

// Reads the words after the command, which is "sbatch" or "salloc", and the config files. Errors
// (kExitUsage) are one line: those of parse_command_line for the command line and the config files;
// -H or --hostfile is given; a default is not an option.
Result<BatchInvocation> parse_batch_command_line(const std::string& command,
                                                 const std::vector<std::string>& args,
                                                 const Environment& environment,
                                                 const FindDefaults& find_defaults,
                                                 const SystemPaths& system_paths = {});

}  // namespace hvdrun
