// Why a try of a job has ended, and whether another follows: pure functions.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Whether --max-restarts is for an end of this kind: a failure, and one that the user did not ask
// for.
bool is_worth_a_restart(EndKind kind);

// What it means that an agent cannot go on, by the exit code that it gives.
EndKind kind_of_agent_failure(int exit_code);

// The allocation without the hosts whose agents were lost. This host stays: hvdrun itself runs
// here, so what was lost was the agent and not the machine.
Allocation remaining_hosts(Allocation allocation, const std::vector<std::string>& lost);

// Back into SLURM's queue: a job that had to stop before its program's end goes on later.
struct Requeue {
  std::string job;          // SLURM's id; empty: the job is not to go back
  std::string note;         // for the user, one line; empty: there is nothing to say
  int exit_code = kExitOk;  // of hvdrun, by what becomes of the job
};

// Whether a job that ended so goes back into the queue: all its ranks succeeded, and those that
// use libhvd had agreed to stop (hvd_agree_stop) on a signal, the launcher's notice, or because the
// time was nearly up. It ends with 0 when it does, and with 124 when it is to go on and will not by
// itself. A pure function. SLURM_RESTART_COUNT says how often it has been back.
Requeue plan_requeue(const JobSpec& spec, const Report& report, const Environment& environment);

// scontrol requeue, blocking. SLURM ends the job's processes then, this one among them. Error:
// scontrol's words, what to do.
Result<void> requeue_job(const std::string& job, const Environment& environment);

}  // namespace hvdrun
