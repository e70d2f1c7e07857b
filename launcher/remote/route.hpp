// The two ends of an agent's link, for people: the launcher's first, the agent's second.
#pragma once

#include <string>

namespace hvdrun {

// `connection` is SSH_CONNECTION of ssh(1), or null: "10.0.0.1:40312 > 10.0.0.2:22". "" when it is
// not what it should be.
std::string route_of_ssh(const char* connection);

// Of a connected TCP socket, seen from the agent, which has connected: "10.0.0.1:4711 <
// [fd00::2]:9".
std::string route_of_socket(int socket);

}  // namespace hvdrun
