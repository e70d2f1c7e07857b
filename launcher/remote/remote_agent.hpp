// The agent on another host, seen from there: `hvdrun --internal-agent`, started by ssh, with the
// link on its stdin and stdout. (`--internal-agent srun`: srun_agent.hpp.)
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "control/messages.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

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
