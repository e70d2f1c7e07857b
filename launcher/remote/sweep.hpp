// Clearing away what an agent and its guard, killed at once on another host, have left there.
//
// The launcher asks for it over the way that the agent came by, with `hvdrun --internal-agent sweep
// JOB AGENT…`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// What follows kAgentArgument for a sweep; then come the job's id and the numbers of agents.
inline constexpr std::string_view kSweepArgument = "sweep";

// The words after hvdrun's name that have run_sweep() called there.
std::vector<std::string> sweep_words(const std::string& job_id,
                                     const std::vector<std::size_t>& agents);

// Ends what is left of that agent's ranks on this host, and removes its folders. Returns whether
// nothing of it is left.
bool sweep(const std::string& job_id, std::size_t agent);

// `arguments`: the job's id, then the agents' numbers; those that are on other hosts do no harm.
// Returns the exit code.
int run_sweep(const std::vector<std::string>& arguments);

}  // namespace hvdrun
