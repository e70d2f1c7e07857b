// One job, from placement to report: starts the agents, supervises the ranks, and stops everything
// for the true reason.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"

#include <csignal>
#include <vector>

namespace hvdrun {

struct JobContext {
  Environment environment;              // the caller's
  sigset_t rank_signal_mask{};          // what ranks start with
  std::vector<pid_t> foreign_children;  // that this process already had: not the job's
};

// The signals that run_job reacts to; the caller blocks them (those that are not ignored) before
// anything else.
const std::vector<int>& job_signals();

// Runs the job to its end and prints what there is to say. Returns only when nothing that it
// started is left, or says so in the report. Must be called while the process has one thread.
Result<Report> run_job(const JobSpec& spec, const Placement& placement, const JobContext& context);

}  // namespace hvdrun
