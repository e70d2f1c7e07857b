// The agent: hvdrun's process on each host. It starts, serves, watches and ends the ranks there.
//
// One thread and one event loop (PMIx runs a thread of its own and posts into it). All it knows
// comes over the link; when the link is gone, or the guard, it ends its ranks and itself.
#pragma once

#include "agent/guard.hpp"
#include "common/fd.hpp"

namespace hvdrun {

// As ps shows it.
inline constexpr char kAgentProcess[] = "hvdrun-agent";

// Runs the agent in this process until the job is over on this host; returns its exit code.
// `guard_alive` reads end of file when the guard is gone.
int run_agent(const AgentOptions& options, LinkEnd link, Fd guard_alive);

}  // namespace hvdrun
