// An agent on another host, started by the system's ssh, whose stdin and stdout carry the link. The
// channel owns the ssh process, on the loop's thread. Its failures are texts of AgentChannel.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"
#include "channels/ssh_command.hpp"
#include "common/fd.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// Starts an agent. `arguments` are those of hvdrun there. Calls on_link before it returns; what is
// written to the link waits until ssh has logged in. A `stream`, if given, is the agent's end of
// the link; then on_link is not called. Error: ssh cannot be started.
Result<std::unique_ptr<AgentChannel>> start_ssh_agent(
    const EventLoop& loop, const SshTarget& target, const SshOptions& options,
    const std::vector<std::string>& arguments, const AgentChannel::Events& events, Fd stream = {});

}  // namespace hvdrun
