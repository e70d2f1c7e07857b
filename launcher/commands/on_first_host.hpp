// Runs a command of hvdrun's on the first host of a running SLURM job, by a step of srun beside the
// job's own. The step takes nothing from the job: no memory, no GPUs, no processors of its own.
//
// For the main thread, which it blocks until the command ends.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

struct HostCommand {
  std::string job;                 // for people: "12_3"
  std::string number;              // that srun takes
  std::string host;                // SLURM's name of it
  std::vector<std::string> words;  // after "hvdrun"
  bool draws = false;              // it uses the terminal
};

// Returns srun's words. A pure function. `hvdrun`: its file here, which is the one there, too, if
// that exists; otherwise the PATH there has it.
std::vector<std::string> first_host_command(const HostCommand& command, const std::string& hvdrun);

// Passes on what the command prints, and the signals that would end hvdrun. Returns the command's
// exit code. A command that draws replaces this process: srun has the terminal then. Errors
// (kExitLauncher): srun fails, or there is no hvdrun on the host.
Result<int> run_on_first_host(const HostCommand& command, const Environment& environment);

}  // namespace hvdrun
