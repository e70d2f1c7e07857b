#include "agent/host_setup.hpp"

#include "base/system.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {

rlimit raise_descriptor_limit(std::size_t wanted) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = std::max<rlim_t>(before.rlim_cur, std::min<rlim_t>(wanted, before.rlim_max));
  ::setrlimit(RLIMIT_NOFILE, &raised);
  const auto last = std::min<rlim_t>(wanted, raised.rlim_cur) - 1;
  const int high = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(last));
  if (high >= 0) ::close(high);
  return before;
}

Result<void> check_descriptors(std::size_t more, const std::string& who) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const auto used = error ? 0 : std::distance(begin(open), end(open));
  const auto needed = static_cast<std::size_t>(used) + more;
  if (needed <= limit.rlim_cur) return {};
  return fail(
      fmt::format(
          "{} on {} take {} open files, and the limit is {}: raise ulimit -n, the hard limit "
          "of open files (limits.conf(5), LimitNOFILE= of a service)",
          who, local_host_name(), needed, limit.rlim_cur),
      kExitUsage);
}

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

namespace fs = std::filesystem;

constexpr std::string_view kSocket = "socket:[";

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

bool has_tcp_socket(pid_t pid) {
  const fs::path process = fs::path("/proc") / std::to_string(pid);
  std::error_code error;
  std::set<std::string> sockets;  // inodes
  fs::directory_iterator at(process / "fd", error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code closed;  // meanwhile
    const auto target = fs::read_symlink(at->path(), closed).string();
    if (target.starts_with(kSocket))
      sockets.insert(target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
  }
  if (error) return error.value() != ENOENT && error.value() != ESRCH;
  if (sockets.empty()) return false;
  for (const char* const table : {"tcp", "tcp6"}) {
    std::ifstream lines(process / "net" / table);
    if (!lines && std::string_view(table) == "tcp") return fs::exists(process, error);
    std::string line;
    std::getline(lines, line);  // the title
    while (std::getline(lines, line)) {
      // sl local remote state queues timer retransmits uid timeout inode
      std::istringstream words(line);
      std::string word;
      for (int i = 0; i < 10; ++i) words >> word;
      if (sockets.contains(word)) return true;
    }
  }
  return false;
}

std::set<std::string> connections_at(const std::set<int>& ports) {
  std::set<std::string> found;
  constexpr std::string_view kListening = "0A";
  const auto port_of = [](const std::string& address) {
    const auto colon = address.rfind(':');
    return colon == std::string::npos ? 0 : std::strtol(address.c_str() + colon + 1, nullptr, 16);
  };
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);  // the title
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      words >> number >> local >> remote >> state;
      if (state != kListening && (ports.contains(static_cast<int>(port_of(local))) ||
                                  ports.contains(static_cast<int>(port_of(remote)))))
        found.insert(local + " " + remote);
    }
  }
  return found;
}

bool uses_tensorflow(pid_t pid) {
  std::ifstream maps(fs::path("/proc") / std::to_string(pid) / "maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libtensorflow_framework.so") != std::string::npos) return true;
  return false;
}

}  // namespace hvdrun
