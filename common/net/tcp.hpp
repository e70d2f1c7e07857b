// TCP sockets: listening, connecting, and whether the other host still answers. Every socket is
// non-blocking and close-on-exec. No function waits. An error is an errno value. Any thread.
//
// Source: tcp(7), accept(2), connect(2).
#pragma once

#include "common/fd.hpp"
#include "common/net/address.hpp"
#include "common/result.hpp"

#include <chrono>

namespace common {

// Listens on an address. A client sends first: the kernel hands over connections only once they
// have sent something (TCP_DEFER_ACCEPT). IPv6's any-address also takes IPv4.
Result<Fd, int> make_listener(const Address& address);

// Accepts a connection, without Nagle's delay. Returns an empty Fd and sets errno if there is none,
// or if that fails.
Fd accept_tcp(int listener);

// Makes a socket for connect_tcp().
Result<Fd, int> make_tcp_socket(const Address& address);

// Begins to connect. Returns 0, or why that is not possible. The socket becomes writable when it is
// connected or refused; connect_error() then returns which.
int connect_tcp(int socket, const Address& address);

// Returns 0 if the socket is connected, and ends Nagle's delay. Returns why it is not otherwise.
int connect_error(int socket);

// Returns whether the peer's kernel has acknowledged something on this TCP socket within `time`, or
// owes no acknowledgment. The caller must send something more often than that. A host that is gone
// acknowledges nothing. A host whose process does not read acknowledges until its window is full;
// then this kernel asks less and less often, so the last answer may be old while none is owed.
//
// Returns true also if the kernel cannot say: a host is given up only if its silence was seen. The
// kernel ends the connection by itself if its data is not acknowledged for some minutes.
bool has_acknowledged(int socket, std::chrono::milliseconds time);

// Returns whether this kernel has sent data again twice and more, and the other host has
// acknowledged none of it. Returns false also if the socket is not connected, or the kernel cannot
// say.
bool sends_in_vain(int socket);

// Returns whether the other host's kernel has answered since data was sent last, or that was less
// than a second ago. A process there that reads nothing makes the kernel send the same data again,
// after ever longer pauses: then has_acknowledged() is too strict.
bool has_answered_last_send(int socket);

}  // namespace common
