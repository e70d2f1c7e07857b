// An agent on another host, started through libssh in a thread of this process, or by the system's
// ssh.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"
#include "channels/ssh.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// Who logs in.
enum class SshUse {
  either,  // libssh; the system's ssh where its configuration asks for what libssh does not do, and
           // where a login fails
  libssh,  // alone: then both are errors
  ssh,     // the system's ssh, once its configuration is read
};

// `arguments` are those of hvdrun over there. on_link is called before this returns. Error: no
// descriptors are left.
Result<std::unique_ptr<AgentChannel>> start_libssh_agent(const EventLoop& loop, SshTarget target,
                                                         SshOptions options,
                                                         std::vector<std::string> arguments,
                                                         SshUse use,
                                                         const AgentChannel::Events& events);

}  // namespace hvdrun
