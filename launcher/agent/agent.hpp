// The agent: hvdrun's process on each host. It starts, serves, watches and ends the ranks there.
//
// It has one thread with one event loop. PMIx runs a thread of its own and posts into the loop;
// signs of life, looks at GPUs and the start of ranks have more. Everything that the agent knows of
// the job comes over the link. If the link closes or the guard dies, it ends its ranks and itself.
// It reports errors to the launcher as frames and continues until the launcher stops it.
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
