// Which job `hvdrun top`, `hvdrun logs` and `hvdrun why` look into: one whose hvdrun runs on this
// machine, or a SLURM job, whose hvdrun runs on its first host. There the command itself is
// started, by srun.
//
// For the main thread, which the calls block.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "control/control_client.hpp"
#include "slurm/job_record.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct LookCommand {
  std::string word;                       // "top"
  std::optional<std::string> job = {};    // as the user names it
  std::vector<std::string> options = {};  // the command's other words
  bool draws = false;                     // it uses the terminal
};

// Calls `here` with the job, if its hvdrun runs on this machine. If it does not, starts the command
// on the first host of the SLURM job of that number; without a name that of the only one of the
// user's that runs. Returns the exit code. Errors: there is no such job, it does not run, it is
// another user's; srun fails.
Result<int> look_into_job(const LookCommand& command, const Environment& environment,
                          const std::function<Result<int>(ControlClient client)>& here);

// Returns the job to look into of those that SLURM has reported for the name; without a name, of
// the user's own. A pure function. Error (kExitUsage): none of them runs, it is not `user`'s, or
// there are several.
Result<JobRecord> choose_slurm_job(const std::vector<JobRecord>& jobs, const LookCommand& command,
                                   uid_t user);

}  // namespace hvdrun
