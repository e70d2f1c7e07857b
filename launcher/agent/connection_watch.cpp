#include "agent/connection_watch.hpp"

#include "agent/process_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSocket = "socket:[";
// The processes of a shorter job are not examined, because that would make it longer.
constexpr std::chrono::milliseconds kShortestExamined{250};

std::set<int> ports_of_ranks(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  std::set<int> ports;
  for (const auto& port : held) ports.insert(port.number);
  for (const auto& [name, value] : job.ranks.front().environment)
    if (name == "MASTER_PORT") ports.insert(std::atoi(value.c_str()));
  return ports;
}

bool has_tf_config(const LaunchMessage& job) {
  const auto& own = job.ranks.front().environment;
  const auto& all = job.environment;
  return std::any_of(own.begin(), own.end(),
                     [](const auto& entry) { return entry.first == "TF_CONFIG"; }) ||
         std::any_of(all.begin(), all.end(),
                     [](const auto& entry) { return entry.starts_with("TF_CONFIG="); });
}

// Returns how long to wait before the next look at ranks that have run for this long.
std::chrono::milliseconds interval_after(std::chrono::steady_clock::duration run) {
  using std::chrono::milliseconds;
  return std::clamp(std::chrono::duration_cast<milliseconds>(run / 4), milliseconds(1000),
                    milliseconds(10000));
}

}  // namespace

ConnectionWatch::ConnectionWatch(const EventLoop& loop, std::function<bool()> joined)
    : joined_(std::move(joined)), timer_(loop, [this] {
        look();
        if (!joined_()) timer_.start(interval_after(std::chrono::steady_clock::now() - begun_));
      }) {}

void ConnectionWatch::start(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  if (job.size < 2) return;
  ports_ = ports_of_ranks(job, held);
  earlier_ = connections_at(ports_);
  has_tf_config_ = has_tf_config(job);
  begun_ = std::chrono::steady_clock::now();
  timer_.start(interval_after({}));
}

void ConnectionWatch::look() {
  for (const auto& process : descendants_of(::getpid(), all_processes())) {
    seen_ = seen_ || has_tcp_socket(process.pid);
    saw_tensorflow_ = saw_tensorflow_ || uses_tensorflow(process.pid);
  }
  look_at_ports();
}

void ConnectionWatch::look_at_ports() {
  const auto now = connections_at(ports_);
  seen_ = seen_ || !std::includes(earlier_.begin(), earlier_.end(), now.begin(), now.end());
}

void ConnectionWatch::rank_ended() {
  if (std::exchange(rank_has_ended_, true) || !timer_.pending() || joined_()) return;
  if (std::chrono::steady_clock::now() - begun_ >= kShortestExamined) look();
}

void ConnectionWatch::finish() {
  if (!timer_.pending()) return;
  timer_.cancel();
  if (!joined_()) look_at_ports();
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
