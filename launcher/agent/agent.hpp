// The agent: hvdrun's process on each host. It starts, serves, watches and ends the ranks there.
//
// It has one thread with one event loop; PMIx runs a thread of its own and posts into the loop. All
// that the agent knows comes over the link. When the link or the guard is gone, it ends its ranks
// and itself.
#pragma once

#include "agent/agent_options.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

namespace hvdrun {

// The agent's name, as ps shows it.
inline constexpr char kAgentProcess[] = "hvdrun-agent";

// Runs the agent in this process until the job is over on this host. Returns its exit code.
// `guard_alive` reads end of file when the guard is gone.
int run_agent(const AgentOptions& options, LinkEnd link, Fd guard_alive);

}  // namespace hvdrun
