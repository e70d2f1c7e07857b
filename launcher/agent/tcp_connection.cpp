#include "agent/tcp_connection.hpp"

#include "common/file_content.hpp"
#include "common/net/address.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string end_text(const std::string& address, const std::string& port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

struct End {
  std::string address;
  std::string text = "?";
};

End end_of(const std::optional<Address>& address) {
  if (!address) return {};
  const std::string host = address->host();
  return {host, end_text(host, std::to_string(address->port()))};
}

constexpr int kInVain = 2;
constexpr std::string_view kEstablished = "01";

// Returns "4711" for each link "socket:[4711]" in /proc/PID/fd.
std::vector<std::string> socket_inodes(pid_t process) {
  constexpr std::string_view kBegin = "socket:[";
  std::vector<std::string> inodes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/fd", process), error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    const std::string link = std::filesystem::read_symlink(entry->path(), gone);
    if (link.starts_with(kBegin))
      inodes.push_back(link.substr(kBegin.size(), link.size() - kBegin.size() - 1));
  }
  return inodes;
}

}  // namespace

LinkRoute route_of_ssh(const char* connection) {
  std::istringstream words(connection == nullptr ? "" : connection);
  std::array<std::string, 4> ends;
  for (auto& word : ends)
    if (!(words >> word)) return {};
  return {fmt::format("{} > {}", end_text(ends[0], ends[1]), end_text(ends[2], ends[3])), ends[0],
          ends[2]};
}

LinkRoute route_of_socket(int socket) {
  const End launcher = end_of(peer_address(socket));
  const End host = end_of(local_address(socket));
  return {fmt::format("{} < {}", launcher.text, host.text), launcher.address, host.address};
}

bool waits_in_vain(std::string_view line, const std::vector<std::string>& inodes) {
  std::istringstream words{std::string(line)};
  std::string skipped;
  std::string state;
  std::string inode;
  int retransmits = 0;
  int probes = 0;
  words >> skipped >> skipped >> skipped >> state >> skipped >> skipped;
  words >> std::hex >> retransmits >> skipped >> std::dec >> probes >> inode;
  return words && state == kEstablished && (retransmits >= kInVain || probes >= kInVain) &&
         std::find(inodes.begin(), inodes.end(), inode) != inodes.end();
}

bool waits_in_vain(pid_t process) {
  const auto inodes = socket_inodes(process);
  if (inodes.empty()) return false;
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream lines(content_of(fmt::format("/proc/{}/net/{}", process, table)));
    for (std::string line; std::getline(lines, line);)
      if (waits_in_vain(line, inodes)) return true;
  }
  return false;
}

}  // namespace hvdrun
