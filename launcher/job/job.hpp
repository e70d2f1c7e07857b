// Runs one job, from its plan to the report. After a failure it starts the job again, as often as
// --max-restarts allows.
#pragma once

#include "base/result.hpp"
#include "job/attempt.hpp"
#include "job/job_context.hpp"
#include "job/plan.hpp"
#include "model/job_spec.hpp"
#include "model/report.hpp"

#include <vector>

namespace hvdrun {

// Returns the signals that run_job reacts to. The caller must block those that are not ignored.
const std::vector<int>& job_signals();

// Replaces this machine in a simulation of a job.
struct Simulation {
  TimeSource* time = nullptr;
  MakeAgents make_agents;
  Output::Descriptors descriptors;  // that lines are written to
};

// Runs the job to its end and prints its report. Returns when nothing that it started is left, or
// lists in the report what is. If the plan is not final, it asks the hosts first. Call it while the
// process has one thread.
Result<Report> run_job(const JobSpec& spec, Plan plan, const JobContext& context,
                       const Simulation* simulation = nullptr);

}  // namespace hvdrun
