#include "agent/connections.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSocket = "socket:[";

}  // namespace

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

}  // namespace hvdrun
