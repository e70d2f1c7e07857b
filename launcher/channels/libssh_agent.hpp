// An agent on another host, started through libssh in a thread of this process, or by the system's
// ssh if libssh cannot do it. The channel belongs to the launcher's loop thread; its login thread
// posts into that loop.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"
#include "channels/login_gate.hpp"
#include "channels/ssh_command.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// Which program logs in.
enum class SshUse {
  either,  // libssh; the system's ssh if the configuration needs what libssh lacks, or if a login
           // fails
  libssh,  // libssh alone: both cases are errors
  ssh,     // the system's ssh, after its configuration was read
};

// Starts an agent. `arguments` are those of hvdrun there. Calls on_link before it returns. If a
// server closes the connection before the login, tries again a few times. Error: no descriptors are
// left.
Result<std::unique_ptr<AgentChannel>> start_libssh_agent(
    const EventLoop& loop, std::shared_ptr<LoginGate> gate, SshTarget target, SshOptions options,
    std::vector<std::string> arguments, SshUse use, const AgentChannel::Events& events);

}  // namespace hvdrun
