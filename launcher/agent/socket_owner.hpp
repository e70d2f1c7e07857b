// Who has the other end of a TCP connection between two processes of this host.
//
// The kernel is asked for this one socket (sock_diag(7)), which takes some 20 µs. A kernel without
// that is asked for all of them (/proc/net/tcp), which takes milliseconds. For any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <system_error>

#include <sys/types.h>

namespace hvdrun {

struct SocketOwner {
  uid_t user = 0;
  std::uint64_t inode = 0;
};

// Returns the user that opened the other end of a connected IPv4 socket, and the inode of that end.
// Returns nullopt if that cannot be known: the kernel does not say, or the other end is closed or
// on another host.
std::optional<SocketOwner> owner_of_other_end(int socket);

// Returns the inodes of the process' open sockets of all kinds. Returns an error if its descriptors
// cannot be seen.
std::set<std::uint64_t> sockets_of(pid_t pid, std::error_code& error);

}  // namespace hvdrun
