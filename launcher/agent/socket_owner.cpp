#include "agent/socket_owner.hpp"

#include "common/fd.hpp"
#include "common/file_content.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

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

std::optional<SocketOwner> ask_kernel(const Ends& ends) {
  const common::Fd link(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
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
  return SocketOwner{answer.idiag_uid, answer.idiag_inode};
}

// Returns an address as in /proc/net/tcp, "0100007F:1F90".
std::string as_in_table(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end;
}

std::optional<SocketOwner> search_table(const Ends& ends) {
  const auto own = as_in_table(ends.own);
  const auto other = as_in_table(ends.other);
  std::istringstream table(content_of("/proc/self/net/tcp"));
  for (std::string line; std::getline(table, line);) {
    // sl local remote state queues timer retransmits uid timeout inode
    std::istringstream words(line);
    std::array<std::string, 10> word;
    for (auto& each : word) words >> each;
    if (word[1] != own || word[2] != other || word[9] == "0") continue;
    SocketOwner owner;
    if (read_number(word[7], owner.user) && read_number(word[9], owner.inode)) return owner;
  }
  return {};
}

}  // namespace

std::optional<SocketOwner> owner_of_other_end(int socket) {
  const auto ends = ends_of_other(socket);
  if (!ends) return {};
  if (const auto owner = ask_kernel(*ends)) return owner;
  return search_table(*ends);
}

std::set<std::uint64_t> sockets_of(pid_t pid, std::error_code& error) {
  std::set<std::uint64_t> inodes;
  std::filesystem::directory_iterator at(fmt::format("/proc/{}/fd", pid), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code closed;  // meanwhile
    const auto target = std::filesystem::read_symlink(at->path(), closed).string();
    constexpr std::string_view kSocket = "socket:[";
    std::uint64_t inode = 0;
    if (target.starts_with(kSocket) &&
        read_number(
            std::string_view(target).substr(kSocket.size(), target.size() - kSocket.size() - 1),
            inode))
      inodes.insert(inode);
  }
  return inodes;
}

}  // namespace hvdrun
