// The agent that srun has started, seen from its host: `hvdrun --internal-agent srun`.
//
//   hvdrun-link (the task of srun's step; carries the link between TLS and a socket pair)
//    └─ hvd-guard
//        └─ hvdrun-agent
//
// The task reads the credentials on stdin, connects to the launcher, and forks the guard. It keeps
// the link open until the guard is gone, so that the link's end says that nothing of the agent is
// left, and ends after it: SLURM kills what is left of a step on a host when its task ends there.
// When it is killed, the link is gone for both sides, and the agent ends the job here. Should the
// guard be killed, it does the guard's last work.
//
// SLURM signals all processes of a step at once (scancel, time limit). Task and guard let all
// signals wait for ever: it is for the launcher to say how the ranks end.
#pragma once

#include "base/result.hpp"
#include "channels/agent_hello.hpp"
#include "channels/tls_stream.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// What follows kAgentArgument.
inline constexpr std::string_view kSrunArgument = "srun";

// Reads the credentials from `input`. Error: none came in time, or whole.
Result<AgentCredentials> receive_credentials(int input, std::chrono::milliseconds timeout);

struct Connection {
  TlsStream stream;
  std::size_t agent = 0;  // which of the job's we are
};

// Tries the addresses in turn until the launcher bids us welcome. Error: the credentials's timeout
// has run out, with what was met at the last address; or the launcher has hung up: `lifeline` reads
// end of file.
Result<Connection> connect_to_launcher(const AgentCredentials& credentials, const AgentHello& hello,
                                       int lifeline);

// Never returns. Must be called while the process has one thread. What goes wrong is said on
// stderr, which srun carries to the launcher.
[[noreturn]] void run_srun_agent();

}  // namespace hvdrun
