// The agent that srun has started, on its host: `hvdrun --internal-agent srun`.
//
//   hvdrun-link (the task of srun's step; carries the link between TLS and a socket pair)
//    └─ hvd-guard
//        └─ hvdrun-agent
//
// The task is a process of one thread. It reads the credentials on stdin, connects to the launcher,
// and forks the guard. It keeps the link open until the guard has ended, so that a closed link
// means that nothing of the agent is left. The task ends last, because SLURM kills what is left of
// a step on a host when its task ends there. If the task is killed, the link closes for both sides,
// and the agent ends the job here. If the guard is killed, the task does the guard's last work.
//
// SLURM signals all processes of a step at once (scancel, time limit). Task and guard block all
// signals for ever, because the launcher decides how the ranks end.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/net/connection.hpp"
#include "protocol/agent_hello.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The argument after kAgentArgument.
inline constexpr std::string_view kSrunArgument = "srun";

// Reads the credentials from `input`. Error: they did not arrive in time, the input ended before
// their end, or they are malformed.
Result<AgentCredentials> receive_credentials(int input, std::chrono::milliseconds timeout);

struct AcceptedAgent {
  Connection tls;
  std::size_t agent = 0;  // our number among the job's agents
};

// Tries the addresses in turn until the launcher accepts. Error: the timeout in the credentials
// expired (the message names the last address and its error), or the launcher has hung up, so that
// `lifeline` reads end of file.
Result<AcceptedAgent> connect_to_launcher(const AgentCredentials& credentials,
                                          const AgentHello& hello, int lifeline);

// Returns how long to wait after this pause and one more round of addresses in vain: twice as long,
// at most a second.
std::chrono::milliseconds next_pause(std::chrono::milliseconds pause);

// Runs the task and the agent. Never returns. Call it while the process has one thread. Prints
// errors on stderr, which srun carries to the launcher.
[[noreturn]] void run_srun_agent();

}  // namespace hvdrun
