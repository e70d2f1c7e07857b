// The agent on this host: forked, not executed, so that it starts in a fraction of a millisecond.
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"

#include <memory>

namespace hvdrun {

// Must be called while this process has one thread. The agent starts with a copy of our memory and
// none of our descriptors but 0, 1, 2. on_link is called before this returns.
Result<std::unique_ptr<AgentChannel>> start_local_agent(const AgentOptions& options,
                                                        const AgentChannel::Events& events);

}  // namespace hvdrun
