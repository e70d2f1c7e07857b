// An agent on another host, started by the system's ssh, whose stdin and stdout are the link.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "remote/carrier.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// `command` as of ssh_command() for `host`, `agent_path` hvdrun over there. on_link is called
// before this returns: what is written waits until ssh has logged in. With a `stream` that is the
// agent's end of the link, and on_link is not called. Error: ssh cannot be started.
Result<std::unique_ptr<Carrier>> start_ssh_agent(const EventLoop& loop, const std::string& host,
                                                 const std::vector<std::string>& command,
                                                 const std::string& agent_path,
                                                 const Carrier::Events& events, Fd stream = {});

}  // namespace hvdrun
