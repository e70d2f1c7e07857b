#include "agent/process_tree.hpp"

#include "common/fd.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr int kMostListings = 20;
// A chain of parents is followed to this length: parents may change while it is read.
constexpr int kMostAncestors = 100;

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::optional<ProcessInfo> read_stat(int proc, const char* pid_name) {
  const Fd file(::openat(proc, (std::string(pid_name) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 512> text{};
  const ssize_t got = ::read(file.get(), text.data(), text.size() - 1);
  if (got <= 0) return std::nullopt;
  // "pid (name) state parent group session …"; the name may have any characters, so the last ')'
  // ends it.
  const char* open = std::strchr(text.data(), '(');
  const char* close = std::strrchr(text.data(), ')');
  if (open == nullptr || close == nullptr) return std::nullopt;
  ProcessInfo info;
  info.name.assign(open + 1, close);
  const char* pid_end = pid_name + std::strlen(pid_name);
  if (std::from_chars(pid_name, pid_end, info.pid).ec != std::errc{}) return std::nullopt;
  // After the session come 7 numbers that do not matter here, 4 times, 2 more numbers, the number
  // of threads, one more, the start, the size, and the resident pages.
  std::array<unsigned long long, 4> times{};
  unsigned long long start = 0;
  unsigned long long resident = 0;
  if (std::sscanf(close + 1,  // NOLINT
                  " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %d %*d "
                  "%llu %*u %llu",
                  &info.state, &info.parent, &info.group, &info.session, times.data(), &times[1],
                  &times[2], &times[3], &info.threads, &start, &resident) != 11)
    return std::nullopt;
  info.start = start;
  info.cpu_ticks = times[0] + times[1] + times[2] + times[3];
  info.resident_pages = resident;
  return info;
}

bool carries_cookie(pid_t pid, const std::string& cookie) {
  const Fd file(
      ::open(("/proc/" + std::to_string(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  std::string environment;
  std::array<char, 16384> part{};
  ssize_t got = 0;
  while ((got = ::read(file.get(), part.data(), part.size())) > 0)
    environment.append(part.data(), static_cast<std::size_t>(got));
  return environment.find(cookie + '\0') != std::string::npos;
}

// Adds the children of all threads of a process. Returns false if the kernel does not list them.
bool add_children(int proc, pid_t pid, std::vector<pid_t>& children) {
  const auto tasks = std::to_string(pid) + "/task";
  Fd opened(::openat(proc, tasks.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return true;  // it has ended
  const std::unique_ptr<DIR, DirectoryCloser> threads(::fdopendir(opened.get()));
  if (!threads) return true;
  const int folder = opened.release();  // the stream closes it
  while (const dirent* entry = ::readdir(threads.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const auto path = std::string(entry->d_name) + "/children";
    const Fd file(::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file && errno == ENOENT && ::faccessat(folder, entry->d_name, F_OK, 0) == 0) return false;
    std::string text;
    std::array<char, 4096> part{};
    ssize_t got = 0;
    while (file && (got = ::read(file.get(), part.data(), part.size())) > 0)
      text.append(part.data(), static_cast<std::size_t>(got));
    const char* at = text.data();
    const char* const end = at + text.size();
    for (pid_t child = 0; at < end; ++at) {
      const auto [next, error] = std::from_chars(at, end, child);
      if (error == std::errc{}) children.push_back(child);
      at = std::max(at, next);
    }
  }
  return true;
}

constexpr std::chrono::milliseconds kAgain{20};
constexpr int kMostRounds = 500;

}  // namespace

bool has_ended(const ProcessInfo& process) {
  const Fd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!proc) return false;
  const auto now = read_stat(proc.get(), std::to_string(process.pid).c_str());
  return now ? now->start != process.start || is_dead(*now) : errno == ENOENT || errno == ESRCH;
}

void send_signal(const ProcessInfo& process, int signal) {
  // The descriptor refers to one process from here on. Its start shows whether it is the one that
  // was seen. Without a descriptor (an old kernel, a seccomp filter, no descriptors left) the start
  // is the only check.
  const Fd held(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!held && errno == ESRCH) return;
  const Fd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto now = read_stat(proc.get(), std::to_string(process.pid).c_str());
  if (!now || now->start != process.start) return;
  if (!held ||
      (::syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) != 0 && errno != ESRCH))
    ::kill(process.pid, signal);
}

std::vector<ProcessInfo> stop_and_kill(const std::function<std::vector<ProcessInfo>()>& find) {
  std::set<std::pair<pid_t, std::uint64_t>> stopped;
  std::vector<ProcessInfo> found;
  for (int listing = 0; listing < kMostListings; ++listing) {
    found = find();
    bool others = false;
    for (const auto& process : found) {
      if (!stopped.emplace(process.pid, process.start).second) continue;
      send_signal(process, SIGSTOP);
      others = true;
    }
    if (!others) break;
  }
  for (const auto& process : found) send_signal(process, SIGKILL);
  return found;
}

bool is_dead(const ProcessInfo& process) {
  return (process.state == 'Z' || process.state == 'X') && process.threads <= 1;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> processes;
  const std::unique_ptr<DIR, DirectoryCloser> proc(::opendir("/proc"));
  if (!proc) return processes;
  while (const dirent* entry = ::readdir(proc.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    if (auto info = read_stat(::dirfd(proc.get()), entry->d_name))
      processes.push_back(std::move(*info));
    else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
      return {};
  }
  return processes;
}

std::vector<ProcessInfo> processes_below(pid_t root) {
  const Fd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<ProcessInfo> found;
  std::vector<pid_t> open;
  if (!add_children(proc.get(), root, open)) return descendants_of(root, all_processes());
  std::set<pid_t> seen;  // a number may be given again meanwhile
  while (!open.empty()) {
    const pid_t pid = open.back();
    open.pop_back();
    if (!seen.insert(pid).second) continue;
    if (auto info = read_stat(proc.get(), std::to_string(pid).c_str()))
      found.push_back(std::move(*info));
    add_children(proc.get(), pid, open);
  }
  return found;
}

std::vector<ProcessInfo> descendants_of(pid_t root, const std::vector<ProcessInfo>& processes,
                                        const std::vector<pid_t>& spare) {
  std::unordered_multimap<pid_t, const ProcessInfo*> by_parent;
  for (const auto& process : processes) by_parent.emplace(process.parent, &process);
  std::vector<ProcessInfo> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const auto [first, last] = by_parent.equal_range(open.back());
    open.pop_back();
    for (auto at = first; at != last; ++at) {
      if (std::find(spare.begin(), spare.end(), at->second->pid) != spare.end()) continue;
      open.push_back(at->second->pid);
      if (!is_dead(*at->second)) found.push_back(*at->second);
    }
  }
  return found;
}

std::optional<pid_t> root_of(pid_t pid, pid_t parent, const std::set<pid_t>& roots) {
  const Fd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::optional<pid_t> by_session;
  for (int depth = 0; depth < kMostAncestors && pid > 1 && pid != parent; ++depth) {
    const auto info = read_stat(proc.get(), std::to_string(pid).c_str());
    if (!info) break;
    if (info->parent == parent && roots.contains(pid)) return pid;
    // No other process gets this number while the session has a process.
    if (roots.contains(info->session)) by_session = info->session;
    pid = info->parent;
  }
  return by_session;
}

std::vector<ProcessInfo> job_processes(const std::vector<ProcessInfo>& processes, pid_t root,
                                       const std::string& cookie, const std::vector<pid_t>& spare) {
  auto found = descendants_of(root, processes, spare);
  const auto known = [&](pid_t pid) {
    return pid == root || std::any_of(found.begin(), found.end(),
                                      [pid](const ProcessInfo& info) { return info.pid == pid; });
  };
  for (const auto& process : processes)
    if (!is_dead(process) && !known(process.pid) && carries_cookie(process.pid, cookie))
      found.push_back(process);
  return found;
}

std::vector<ProcessInfo> kill_job_processes(pid_t root, const std::string& cookie,
                                            std::chrono::milliseconds timeout,
                                            const std::vector<pid_t>& spare) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  bool looked = false;
  const auto find = [&] {
    const auto processes = all_processes();
    looked = !processes.empty();
    return job_processes(processes, root, cookie, spare);
  };
  while (true) {
    auto found = stop_and_kill(find);
    if ((found.empty() && looked) || std::chrono::steady_clock::now() > deadline) return found;
    for (const auto& process : found) ::waitpid(process.pid, nullptr, WNOHANG);
    // The kernel needs a moment to end a process and reports that to its parent only. Most of these
    // are not our children.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string to_string(const ProcessInfo& process) {
  return "pid " + std::to_string(process.pid) + " (" + process.name + ")";
}

KillLoop::KillLoop(const EventLoop& loop, Events events)
    : events_(std::move(events)), again_(loop, [this] { start(); }) {}

void KillLoop::start() {
  const auto find = [] { return descendants_of(::getpid(), all_processes()); };
  if (++rounds_ > kMostRounds) return events_.on_given_up(find());
  stop_and_kill(find);
  again_.start(kAgain);
  events_.on_round();
}

}  // namespace hvdrun
