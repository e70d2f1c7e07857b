// Clearing away what an agent and its guard, killed at once on another host, have left there.
//
// The launcher asks for it over the way that the agent came by, with `hvdrun --internal-agent
// cleanup JOB AGENT…`.
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// What follows kAgentArgument for a cleanup; then come the job's id and the numbers of agents.
inline constexpr std::string_view kCleanupArgument = "cleanup";

// The words after hvdrun's name that have run_cleanup() called there.
std::vector<std::string> cleanup_arguments(const std::string& job_id,
                                           const std::vector<std::size_t>& agents);

// Ends what is left of that agent's ranks on this host, and removes its folders. Returns whether
// nothing of it is left.
bool clean_up(const std::string& job_id, std::size_t agent);

// `arguments`: the job's id, then the agents' numbers; those that are on other hosts do no harm.
// Returns the exit code.
int run_cleanup(const std::vector<std::string>& arguments);

// The agent on another host, seen from there: `hvdrun --internal-agent`, started by ssh, with the
// link on its stdin and stdout. (`--internal-agent srun`: srun_agent.hpp.)

// The only argument of an hvdrun that is to be an agent.
inline constexpr std::string_view kAgentArgument = "--internal-agent";

// Whether it has the form of hvdrun's job ids; nothing else may become the name of a folder.
bool is_job_id(std::string_view text);

// What the launcher's first frame asks for. Error: another protocol or version (install the same on
// both), or a job id that is none: it becomes the name of folders.
Result<AgentOptions> agent_options(const ConfigureMessage& message);

// Waits for the first frame on the link, and becomes guard and agent; never returns. Must be called
// while the process has one thread. What goes wrong is said on stderr.
// `route` and `ignores_signals` as in AgentOptions.
[[noreturn]] void run_agent_on(LinkEnd link, const std::string& route, bool ignores_signals);

// Takes the link from the standard streams, and goes on as above; ssh carries stderr to the
// launcher.
[[noreturn]] void run_remote_agent();

}  // namespace hvdrun
