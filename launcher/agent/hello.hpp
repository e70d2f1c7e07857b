// The agent's first frame: what the launcher must know of this host before it starts ranks. On the
// agent's loop thread. Nothing fails: what is missing is in the message.
#pragma once

#include "agent/agent_options.hpp"
#include "agent/held_ports.hpp"
#include "protocol/messages.hpp"

#include <vector>

namespace hvdrun {

// Returns the message. Takes the ports that it names into `ports`: none after an error, because the
// launcher asks for them then, and gets the error. Turns PMIx off if it cannot be used and need
// not.
HelloMessage make_hello(AgentOptions& options, std::vector<HeldPort>& ports);

}  // namespace hvdrun
