// The agent's first frame: what the launcher must know of this host before it starts ranks. On the
// agent's loop thread. Nothing fails: what is missing is in the message.
#pragma once

#include "agent/agent_options.hpp"
#include "agent/held_ports.hpp"
#include "common/net/address.hpp"
#include "protocol/messages.hpp"

#include <map>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the message. Takes the ports that it names into `ports`: none after an error, because the
// launcher asks for them then, and gets the error. Turns PMIx off if it cannot be used and need
// not. Takes the addresses of the names that the launcher has asked for into `addresses`.
HelloMessage make_hello(AgentOptions& options, std::vector<HeldPort>& ports,
                        std::map<std::string, common::Address>& addresses);

}  // namespace hvdrun
