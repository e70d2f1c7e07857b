#include "agent/held_ports.hpp"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

Result<HeldPort> hold_port() {
  HeldPort port;
  port.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!port.socket) return fail_errno("cannot make a socket to hold a port", errno);
  const int on = 1;
  ::setsockopt(port.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(port.socket.get(), generic, size) != 0 ||
      ::getsockname(port.socket.get(), generic, &size) != 0)
    return fail_errno("cannot find a free port", errno);
  port.number = ntohs(address.sin_port);
  return port;
}

}  // namespace

Result<std::vector<HeldPort>> hold_ports(int count, int master_port) {
  std::vector<HeldPort> ports;
  std::vector<HeldPort> too_near;  // kept for now, or the kernel could offer them again
  while (static_cast<int>(ports.size()) < count) {
    HVD_TRY(auto port, hold_port());
    if (ports.empty() && master_port == 0) master_port = port.number;
    const bool near = std::abs(port.number - master_port) <= kPortsLeftToProgram;
    (near && !ports.empty() ? too_near : ports).push_back(std::move(port));
  }
  return ports;
}

std::vector<int> numbers_of(const std::vector<HeldPort>& ports) {
  std::vector<int> numbers;
  for (const auto& port : ports) numbers.push_back(port.number);
  return numbers;
}

}  // namespace hvdrun
