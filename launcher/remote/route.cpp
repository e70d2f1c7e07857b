#include "remote/route.hpp"

#include <array>
#include <sstream>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

std::string end_text(const std::string& address, const std::string& port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

// `get` is getsockname or getpeername.
std::string end_of(int socket, int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (get(socket, generic, &size) != 0 ||
      ::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return end_text(host.data(), port.data());
}

}  // namespace

std::string route_of_ssh(const char* connection) {
  std::istringstream words(connection == nullptr ? "" : connection);
  std::array<std::string, 4> ends;
  for (auto& word : ends)
    if (!(words >> word)) return {};
  return fmt::format("{} > {}", end_text(ends[0], ends[1]), end_text(ends[2], ends[3]));
}

std::string route_of_socket(int socket) {
  return fmt::format("{} < {}", end_of(socket, ::getpeername), end_of(socket, ::getsockname));
}

bool has_acknowledged(int socket, std::chrono::milliseconds time) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  // None is owed where the window there is full: the kernel asks ever less often then.
  const bool owed = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
  return !owed || std::chrono::milliseconds(info.tcpi_last_ack_recv) <= time;
}

}  // namespace hvdrun
