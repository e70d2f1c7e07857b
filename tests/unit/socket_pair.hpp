// Both ends of a Unix socket, for tests.
#pragma once

#include "common/fd.hpp"

#include <array>
#include <stdexcept>

#include <sys/socket.h>

namespace test_tools {

using SocketEnds = std::array<common::Fd, 2>;

// `flags` are those of socket(2), such as SOCK_NONBLOCK.
inline SocketEnds make_socket_pair(int flags = 0) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends) != 0)
    throw std::runtime_error("socketpair failed");
  return {common::Fd(ends[0]), common::Fd(ends[1])};
}

}  // namespace test_tools

namespace hvdrun {
using test_tools::make_socket_pair;
using test_tools::SocketEnds;
}  // namespace hvdrun
namespace libhvd::test {
using test_tools::make_socket_pair;
using test_tools::SocketEnds;
}  // namespace libhvd::test
