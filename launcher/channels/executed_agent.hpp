// An agent on this host that takes the place of one that was lost. The launcher has threads by
// then, so it is executed, not forked: this program once more, with the link on its stdin and
// stdout.
//
// The channel owns the process, which becomes the agent's guard, on the loop's thread. Its failures
// are texts of AgentChannel.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"

#include <memory>

namespace hvdrun {

// Starts the agent. Calls on_link before it returns. Error: no process or link can be made.
Result<std::unique_ptr<AgentChannel>> start_executed_agent(const EventLoop& loop,
                                                           const AgentChannel::Events& events);

}  // namespace hvdrun
