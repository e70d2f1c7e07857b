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

// Returns the seconds on a clock that only this agent has.
double agent_clock();

// Reads a rank's status page and corrects what cannot be true: a rank that has ended is in no
// collective, and no rank has been in one for longer than it has run.
RankStatus status_of(const StatusPages& pages, const RankProcess& process);

// Returns what is wanted of all ranks. The looks come later (RankLooker).
AnswerMessage answer_of(const QuestionMessage& question, const StatusPages& pages,
                        const std::vector<RankProcess>& ranks, const GpuRecorder* gpus = nullptr);

// Returns how a rank ended, as its process and its page show it. The caller fills in what only the
// host knows: lost_connection and out_of_memory.
ExitedMessage exited_message(const StatusPages& pages, const RankProcess& process,
                             const RankProcesses::Exit& exit, std::uint64_t input_taken);

}  // namespace hvdrun
