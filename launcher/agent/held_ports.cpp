#include "agent/held_ports.hpp"

#include "common/system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

constexpr int kLastPort = 65535;

// Returns a socket that has the port, or any free one if that is 0; invalid, with errno, if it
// cannot.
Fd bind_port(int port) {
  Fd bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!bound) return bound;
  const int on = 1;
  ::setsockopt(bound.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(bound.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return bound;
  const int error = errno;
  bound.reset();
  errno = error;
  return bound;
}

Result<HeldPort> hold_port() {
  HeldPort port;
  port.socket = bind_port(0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (!port.socket ||
      ::getsockname(port.socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
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

std::string taken_port_warning(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  if (job.ranks.empty() || job.ranks.front().rank != 0) return {};
  for (const auto& [name, value] : job.ranks.front().environment) {
    if (name != "MASTER_PORT") continue;
    const int port = std::atoi(value.c_str());
    const bool is_ours =
        std::ranges::any_of(held, [port](const HeldPort& known) { return known.number == port; });
    if (is_ours || port <= 0 || port > kLastPort || bind_port(port) || errno != EADDRINUSE)
      return {};
    return fmt::format(
        "another process of {} has the port of -x MASTER_PORT={}; without -x MASTER_PORT, "
        "hvdrun chooses a free one",
        local_host_name(), port);
  }
  return {};
}

std::vector<int> numbers_of(const std::vector<HeldPort>& ports) {
  std::vector<int> numbers;
  for (const auto& port : ports) numbers.push_back(port.number);
  return numbers;
}

}  // namespace hvdrun
