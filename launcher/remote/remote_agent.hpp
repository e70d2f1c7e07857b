// The agent on another host, seen from there: `hvdrun --internal-agent`, started by ssh, with the
// link on its stdin and stdout.
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "control/messages.hpp"

#include <string_view>

namespace hvdrun {

// The only argument of an hvdrun that is to be an agent.
inline constexpr std::string_view kAgentArgument = "--internal-agent";

// What the launcher's first frame asks for. Error: another protocol or version (install the same on
// both), or a job id that is none: it becomes the name of folders.
Result<AgentOptions> agent_options(const ConfigureMessage& message);

// Takes the link, waits for the first frame, and becomes guard and agent; never returns. Must be
// called while the process has one thread. What goes wrong is said on stderr, which ssh carries to
// the launcher.
[[noreturn]] void run_remote_agent();

}  // namespace hvdrun
