#include "agent/master_port.hpp"

#include <cerrno>

#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {

Result<MasterPort> hold_master_port() {
  MasterPort port;
  port.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!port.socket) return fail_errno("cannot make a socket for MASTER_PORT", errno);
  const int on = 1;
  ::setsockopt(port.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(port.socket.get(), generic, size) != 0 ||
      ::getsockname(port.socket.get(), generic, &size) != 0)
    return fail_errno("cannot find a free port for MASTER_PORT", errno);
  port.number = ntohs(address.sin_port);
  return port;
}

}  // namespace hvdrun
