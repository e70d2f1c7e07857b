// The command lines of `hvdrun sbatch` and `hvdrun salloc`: hvdrun's own options, those that say
// what to ask SLURM for, and the program.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/command_line.hpp"
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
  JobSpec job;       // what hvdrun is to do there; its program is not looked up
  BatchSpec batch;
  // The options for the hvdrun that starts the ranks, as the user typed them: without those that
  // are settled when the allocation is there (-np, --nnodes, --cpus-per-rank) or that count here.
  std::vector<std::string> hvdrun_options;
  std::vector<std::string> command;  // empty: none given
  std::vector<std::string> notes;    // for the user, one line each, without newline
};

// A setting that counts less than every config file: a template's.
struct DefaultSetting {
  std::string name;    // the option's
  std::string value;   // as in Setting
  std::string source;  // "cte-power.sbatch:4"
};

// Looks up what else to set, when it is known which template is wanted.
using FindDefaults = std::function<Result<std::vector<DefaultSetting>>(const BatchSpec&)>;

// `command` is "sbatch" or "salloc". Errors (kExitUsage) are one line: of the command line and the
// config files as parse_command_line's; -H and --hostfile; a default that is no option.
Result<BatchInvocation> parse_batch_command_line(const std::string& command,
                                                 const std::vector<std::string>& args,
                                                 const Environment& environment,
                                                 const FindDefaults& find_defaults,
                                                 const SystemPaths& system_paths = {});

}  // namespace hvdrun
