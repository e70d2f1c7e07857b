// What it means when srun, or an agent under it, ends before the agent has connected: pure
// functions, in a user's words.
#pragma once

#include "remote/srun_output.hpp"

#include <string>
#include <vector>

namespace hvdrun {

struct SrunTrouble {
  std::vector<std::string> hosts;  // as SLURM wrote them, "n3" or "n[1-3]"; none: the whole step
  std::string message;             // without the hosts, so that those with one trouble fold
};

// What happened to the agents of `ends`, those with one trouble together. `lines` is what srun and
// its tasks have printed so far.
std::vector<SrunTrouble> explain_task_ends(const std::vector<SrunTaskEnd>& ends,
                                           const std::vector<SrunLine>& lines,
                                           const std::string& agent_path);

// srun has ended (`wait_status` as of wait(2)) without a word about single tasks.
SrunTrouble explain_srun_failure(int wait_status, const std::vector<SrunLine>& lines);

// srun still runs: what it waits for, for the message of a start that takes too long.
std::string explain_srun_waiting(const std::vector<SrunLine>& lines);

}  // namespace hvdrun
