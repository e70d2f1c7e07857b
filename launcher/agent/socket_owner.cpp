#include "agent/socket_owner.hpp"

#include "common/fd.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

// A socket by its two addresses, as it sees them itself.
struct Ends {
  sockaddr_in own{};
  sockaddr_in other{};
};

// Returns the ends of the socket at the other end of `socket`.
std::optional<Ends> ends_of_other(int socket) {
  Ends ends;
  socklen_t length = sizeof ends.other;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&ends.other), &length) != 0) return {};
  length = sizeof ends.own;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&ends.own), &length) != 0) return {};
  if (ends.own.sin_family != AF_INET || ends.other.sin_family != AF_INET) return {};
  return ends;
}

std::optional<uid_t> ask_kernel(const Ends& ends) {
  const Fd link(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!link) return {};
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  auto& request = question.request;
  request.sdiag_family = AF_INET;
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ~0u;
  request.id.idiag_src[0] = ends.own.sin_addr.s_addr;
  request.id.idiag_sport = ends.own.sin_port;
  request.id.idiag_dst[0] = ends.other.sin_addr.s_addr;
  request.id.idiag_dport = ends.other.sin_port;
  request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(link.get(), &question, sizeof question, 0) < 0) return {};
  alignas(nlmsghdr) std::array<char, 1024> bytes;
  const auto received = ::recv(link.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  constexpr std::size_t kLeast = NLMSG_LENGTH(sizeof(inet_diag_msg));
  if (received < static_cast<ssize_t>(kLeast)) return {};
  nlmsghdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};  // NLMSG_ERROR: there is none
  inet_diag_msg answer;
  std::memcpy(&answer, bytes.data() + NLMSG_HDRLEN, sizeof answer);
  if (answer.idiag_inode == 0) return {};  // no process has it any more
  return answer.idiag_uid;
}

// Returns an address as in /proc/net/tcp, "0100007F:1F90".
std::string as_in_table(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

std::optional<uid_t> search_table(const Ends& ends) {
  const auto own = as_in_table(ends.own);
  const auto other = as_in_table(ends.other);
  std::ifstream table("/proc/self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    // sl local remote state queues timer retransmits uid timeout inode
    std::istringstream words(line);
    std::array<std::string, 10> word;
    for (auto& each : word) words >> each;
    if (word[1] != own || word[2] != other || word[9] == "0") continue;
    uid_t user = 0;
    const auto* const end = word[7].data() + word[7].size();
    if (std::from_chars(word[7].data(), end, user).ptr == end) return user;
  }
  return {};
}

}  // namespace

std::optional<uid_t> user_at_other_end(int socket) {
  const auto ends = ends_of_other(socket);
  if (!ends) return {};
  if (const auto user = ask_kernel(*ends)) return user;
  return search_table(*ends);
}

}  // namespace hvdrun
