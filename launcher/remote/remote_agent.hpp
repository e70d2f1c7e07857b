// The entry points of hvdrun on another host: `hvdrun --internal-agent`.
//
//   --internal-agent                      an agent that ssh has started; its link is stdin and
//   stdout
//   --internal-agent here                 an agent on the launcher's own host, while the job runs
//   --internal-agent srun                 an agent that srun has started: srun_agent.hpp
//   --internal-agent cleanup JOB AGENT…   ends what agent and guard left when both were killed at
//   once
//
// The launcher starts them over the agent's channel. They run in a process of one thread, print
// errors on stderr, which reaches the launcher, and end the process.
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The first argument of an hvdrun that runs as an agent or for one.
inline constexpr std::string_view kAgentArgument = "--internal-agent";

// The argument after kAgentArgument for a cleanup, before the job's id and the numbers of agents.
inline constexpr std::string_view kCleanupArgument = "cleanup";

// The argument after kAgentArgument for an agent on the launcher's own host.
inline constexpr std::string_view kHereArgument = "here";

// Takes the link from the standard streams and continues as run_agent_on(). Never returns. ssh
// carries stderr to the launcher. `launcher_is_here`: see AgentOptions.
[[noreturn]] void run_remote_agent(bool launcher_is_here);

// How an agent was started: see AgentOptions.
struct AgentStart {
  LinkRoute route;
  bool ignores_signals = false;
  bool launcher_is_here = false;
};

// Waits for the first frame on the link, ends what a lost agent has left here whose place this one
// takes, and becomes guard and agent. Never returns. Call it while the process has one thread.
// Prints errors on stderr. `death`: see become_guard().
[[noreturn]] void run_agent_on(LinkEnd link, const AgentStart& start, Fd death = {});

// Returns the options in the launcher's first frame. Error: another protocol or version of hvdrun
// (kExitUsage), an invalid job id, which would become the name of folders, or an unknown PmixMode.
Result<AgentOptions> agent_options(const ConfigureMessage& message);

// Returns whether the text has the form of hvdrun's job ids. No other text may become the name of a
// folder.
bool is_job_id(std::string_view text);

// Returns the arguments of hvdrun that make it call run_cleanup() there.
std::vector<std::string> cleanup_arguments(const std::string& job_id,
                                           const std::vector<std::size_t>& agents);

// Cleans up after agents of a job. `arguments`: the job's id, then the agents' numbers. Agents of
// other hosts do no harm. Returns the exit code.
int run_cleanup(const std::vector<std::string>& arguments);

// Ends what is left of that agent's ranks on this host, and removes its folders. Returns whether
// no process of it is left.
bool clean_up(const std::string& job_id, std::size_t agent);

}  // namespace hvdrun
