// An agent on another host, started through libssh in a thread of this process, or, where that does
// not do, by the system's ssh.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"
#include "channels/ssh.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// `arguments` are those of hvdrun over there. on_link is called before this returns. The system's
// ssh takes over, before anything was said, where its configuration asks for what libssh does not
// do, and where a login fails; unless `alone`: then both are errors. Error: no descriptors are
// left.
Result<std::unique_ptr<AgentChannel>> start_libssh_agent(const EventLoop& loop, SshTarget target,
                                                         SshOptions options,
                                                         std::vector<std::string> arguments,
                                                         bool alone,
                                                         const AgentChannel::Events& events);

}  // namespace hvdrun
