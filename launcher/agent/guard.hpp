// The guard: the agent's parent, a process of one thread. Each host has both, and the ranks below
// them:
//
//   launcher ── guard (subreaper) ── agent (subreaper) ── ranks ── whatever they start
//
// The guard only waits for the agent. When the agent ends in any way, the guard kills what is left
// of the job on this host and removes the job's folders. If the launcher ends, the guard continues
// a stopped agent, so that the agent can end the job; an agent that does not is killed, and the
// ranks too. If the guard is killed, the agent notices and
// ends the job. If both are killed at once, the launcher cleans up.
//
// An agent that has done its work may be unable to end: its thread for GPUs may hang in the kernel
// if one has a fault. The guard waits one second for it and then ends without it.
#pragma once

#include "agent/agent_options.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

#include <string_view>

namespace hvdrun {

// The guard's name, as ps shows it. `pkill -9 hvdrun` kills every process with "hvdrun" in its
// name; with -f, in its command line. The guard has it in neither, so it survives and ends what is
// left.
inline constexpr char kGuardProcess[] = "hvd-guard";

// Begins the guard's line on stderr that says how the agent was killed.
inline constexpr std::string_view kAgentDeath = "the agent was ";

// Turns the calling process, which must have one thread, into the guard. Never returns. Closes all
// descriptors except 0, 1, 2 and the link's. Error: prints it and exits if no agent can be started.
// After the agent has failed, the guard writes why to `death` ("killed by SIGKILL"). Without it, it
// names a signal on stderr.
[[noreturn]] void become_guard(const AgentOptions& options, LinkEnd link, Fd death = {});

}  // namespace hvdrun
