// Who has the other end of a TCP connection between two processes of this host.
//
// The kernel is asked for this one socket (sock_diag(7)), which takes some 20 µs. A kernel without
// that is asked for all of them (/proc/net/tcp), which takes milliseconds. For any thread.
#pragma once

#include <optional>

#include <sys/types.h>

namespace hvdrun {

// Returns the user who opened the other end of a connected IPv4 socket. Returns nullopt if that
// cannot be known: the kernel does not say, or the other end is closed or on another host.
std::optional<uid_t> user_at_other_end(int socket);

}  // namespace hvdrun
