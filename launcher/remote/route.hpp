// The TCP connection below an agent's link: its two ends, for people (the launcher's first, the
// agent's second), and whether the other host answers.
#pragma once

#include <chrono>
#include <string>

namespace hvdrun {

// `connection` is SSH_CONNECTION of ssh(1), or null: "10.0.0.1:40312 > 10.0.0.2:22". "" when it is
// not what it should be.
std::string route_of_ssh(const char* connection);

// Of a connected TCP socket, seen from the agent, which has connected: "10.0.0.1:4711 <
// [fd00::2]:9".
std::string route_of_socket(int socket);

// Whether the peer's kernel has acknowledged something on this TCP socket within `time` (TCP_INFO
// of tcp(7)). The caller sends something more often than that. True where the kernel cannot tell.
bool has_acknowledged(int socket, std::chrono::milliseconds time);

}  // namespace hvdrun
