// Whether processes speak to others over a network.
//
// Source: proc(5), /proc/PID/fd and /proc/PID/net.
#pragma once

#include <sys/types.h>

namespace hvdrun {

// Whether the process has a TCP socket that listens or is connected. True as well where that cannot
// be seen: it belongs to somebody else, or there is no /proc/PID/net. False when it has ended.
bool has_tcp_socket(pid_t pid);

}  // namespace hvdrun
