// What each agent is told to start: pure functions of the job and its placement.
#pragma once

#include "control/messages.hpp"
#include "job/context.hpp"
#include "job/plan.hpp"
#include "job/rank_environment.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <cstddef>
#include <vector>

namespace hvdrun {

// The ranks that read hvdrun's stdin.
std::vector<int> input_receivers(const InputSpec& input, int size);

// For the agent of one host.
LaunchMessage launch_message(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                             const JobContext& context, std::size_t host_index);

}  // namespace hvdrun
