// What the agent reports of its ranks, from their processes and status pages: how they are now, and
// how they ended. Pure functions of what was read; they cannot fail. The agent's loop thread.
#pragma once

#include "agent/host_watch.hpp"
#include "agent/rank_processes.hpp"
#include "agent/status_pages.hpp"
#include "protocol/messages.hpp"

#include <cstdint>
#include <vector>

namespace hvdrun {

// Reads a rank's status page and corrects what cannot be true: a rank that has ended is in no
// collective, and no rank has been in one for longer than it has run.
RankStatus status_of(const StatusPages& pages, const RankProcess& process);

// Returns the status of all ranks. For a table it includes the states of their processes; for a
// look also what they use, and the GPUs.
StatesMessage states_of(const StatusPages& pages, const std::vector<RankProcess>& ranks,
                        StatesPurpose purpose, const GpuWatch* gpus = nullptr);

// Returns how a rank ended, as its process and its page show it. The caller fills in what only the
// host knows: lost_connection and out_of_memory.
ExitedMessage exited_message(const StatusPages& pages, const RankProcess& process,
                             const RankProcesses::Exit& exit, std::uint64_t input_taken);

}  // namespace hvdrun
