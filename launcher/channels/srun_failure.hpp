// Explains to the user why srun, or an agent under it, ended before the agent connected. Pure
// functions, for any thread; they cannot fail.
#pragma once

#include "channels/sent_agent.hpp"
#include "channels/srun_output.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SrunFailure {
  std::vector<std::string> hosts;  // as SLURM wrote them, "n3" or "n[1-3]"; empty: the whole step
  std::string message;             // without the hosts, so that equal failures can be merged
  std::optional<AgentLack> lack = std::nullopt;  // set if the hosts have no hvdrun that can be used
};

// Explains the ends of these tasks. Hosts with the same failure are in one SrunFailure. `lines`:
// the output of srun and its tasks so far.
std::vector<SrunFailure> explain_task_ends(const std::vector<SrunTaskEnd>& ends,
                                           const std::vector<SrunLine>& lines,
                                           const std::string& agent_path);

// Explains the end of srun (`wait_status` as of wait(2)) if it has not reported the end of single
// tasks.
SrunFailure explain_srun_failure(int wait_status, const std::vector<SrunLine>& lines);

// Returns what an srun that still runs waits for, for the message of a start that takes too long.
std::string explain_srun_waiting(const std::vector<SrunLine>& lines);

}  // namespace hvdrun
