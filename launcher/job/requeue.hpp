// Back into a scheduler's queue: whether a job that had to stop before its program's end is to
// continue later.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/report.hpp"

#include <string>

namespace hvdrun {

struct Requeue {
  std::string job;          // the scheduler's id; empty: the job is not requeued
  std::string note;         // for the user, one line; empty: nothing to print
  int exit_code = kExitOk;  // hvdrun's
};

// Decides whether the job goes back into the queue. It does if all its ranks succeeded, and those
// that use libhvd had agreed to stop (hvd_agree_stop) on a signal, on the launcher's notice, or
// because the time was nearly up. The exit code is 0 if it goes back, and 124 if it would have to
// and cannot. `possible`: what check_requeue() returned. A pure function.
Requeue plan_requeue(const JobSpec& spec, const Report& report, const Environment& environment,
                     const Result<void>& possible = {});

// Checks at the start that a job with --max-requeues could go back into the queue. Error: why not,
// and what to do.
Result<void> check_requeue(const JobSpec& spec, const Environment& environment);

// Puts the job back and waits for that. The scheduler then ends the job's processes, including this
// one. Error: the scheduler's message, and what to do.
Result<void> requeue_job(const std::string& job, const Environment& environment);

}  // namespace hvdrun
