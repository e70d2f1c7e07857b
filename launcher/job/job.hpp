// One job, from its plan to the report: tries it, and after a failure tries it again as often as
// --max-restarts says.
#pragma once

#include "base/result.hpp"
#include "job/agents.hpp"
#include "job/attempt.hpp"
#include "job/plan.hpp"
#include "model/job_spec.hpp"
#include "model/report.hpp"

#include <vector>

namespace hvdrun {

// The signals that run_job reacts to. The caller has blocked those that are not ignored.
const std::vector<int>& job_signals();

// What stands in for this machine in a simulation of a job.
struct Simulation {
  TimeSource* time = nullptr;
  MakeAgents make_agents;
  Output::Descriptors descriptors;  // where lines go
};

// Runs the job to its end and prints what there is to say. Returns only when nothing that it
// started is left, or says so in the report. Where the plan is not final, the hosts are asked
// first. Must be called while the process has one thread.
Result<Report> run_job(const JobSpec& spec, Plan plan, const JobContext& context,
                       const Simulation* simulation = nullptr);

}  // namespace hvdrun
