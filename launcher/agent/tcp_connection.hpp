// The TCP connection that carries an agent's link: its two ends as text for people, and whether the
// other host still answers. Plain functions that ask the kernel, for any thread. They cannot fail.
//
// Source: proc(5), /proc/PID/net/tcp. Of a socket of our own common/net/tcp.hpp asks the kernel.
#pragma once

#include "agent/agent_options.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Returns the ends of an ssh connection, the launcher's first: "10.0.0.1:40312 > 10.0.0.2:22".
// `connection` is SSH_CONNECTION of ssh(1), or null. Returns an empty route if it is malformed.
LinkRoute route_of_ssh(const char* connection);

// Returns the ends of a connected TCP socket, the launcher's first: "10.0.0.1:4711 < [fd00::2]:9".
// Call it in the agent, which has connected.
LinkRoute route_of_socket(int socket);

// Returns whether this kernel waits for an acknowledgment on an established TCP connection of
// another process, and has asked for it twice in vain. Returns false if that cannot be seen.
bool waits_in_vain(pid_t process);

// Does the same for one line of /proc/net/tcp, if it is that of one of these sockets.
bool waits_in_vain(std::string_view line, const std::vector<std::string>& inodes);

}  // namespace hvdrun
