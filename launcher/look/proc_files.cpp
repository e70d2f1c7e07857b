#include "look/proc_files.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <sstream>

#include <dirent.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::uint64_t kKernelThread = 0x00200000;  // PF_KTHREAD of linux/sched.h

std::string path_of(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Returns the value of a line such as "se.exec_start     :     31685510.778460", in milliseconds.
std::optional<double> exec_start(const std::string& sched) {
  const auto at = sched.find("se.exec_start");
  if (at == std::string::npos) return std::nullopt;
  const auto colon = sched.find(':', at);
  if (colon == std::string::npos) return std::nullopt;
  std::istringstream number(sched.substr(colon + 1, 64));
  double milliseconds = 0;
  if (!(number >> milliseconds)) return std::nullopt;
  return milliseconds;
}

}  // namespace

std::string read_proc(pid_t pid, const std::string& name) {
  return content_of(path_of(pid, name));
}

std::string read_proc_link(pid_t pid, const std::string& name) {
  std::array<char, 4096> target{};
  const ssize_t got = ::readlink(path_of(pid, name).c_str(), target.data(), target.size());
  return got > 0 ? std::string(target.data(), static_cast<std::size_t>(got)) : std::string();
}

std::optional<ThreadStat> read_stat(pid_t pid, const std::string& name) {
  const std::string text = read_proc(pid, name);
  // "PID (NAME) S …": the name may have any characters, so the last ')' ends it.
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ThreadStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::istringstream fields(text.substr(close + 1));
  std::string skipped;
  double user = 0;
  double system = 0;
  fields >> stat.state >> stat.parent;
  for (int field = 5; field < 9; ++field) fields >> skipped;
  std::uint64_t flags = 0;
  fields >> flags;
  stat.is_kernels = (flags & kKernelThread) != 0;
  for (int field = 10; field < 12; ++field) fields >> skipped;
  fields >> stat.major_faults >> skipped >> user >> system;
  if (!fields) return std::nullopt;
  stat.cpu_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return stat;
}

std::map<std::string, std::string> read_fields(pid_t pid, const std::string& name) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(read_proc(pid, name));
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto value = line.find_first_not_of(" \t", colon + 1);
    fields[line.substr(0, colon)] = value == std::string::npos ? "" : line.substr(value);
  }
  return fields;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, DirectoryCloser> folder(::opendir(path_of(pid, "task").c_str()));
  if (!folder) return threads;
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t tid = 0;
    const std::string_view name = entry->d_name;
    if (std::from_chars(name.data(), name.data() + name.size(), tid).ec == std::errc{})
      threads.push_back(tid);
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t tid : threads_of(pid)) {
    std::istringstream words(read_proc(pid, "task/" + std::to_string(tid) + "/children"));
    for (pid_t child = 0; words >> child;) children.push_back(child);
  }
  return children;
}

SystemCallState parse_system_call(const std::string& text) {
  SystemCallState state;
  if (text.starts_with("running")) {
    state.known = state.running = true;
    return state;
  }
  std::istringstream words(text);
  if (!(words >> state.number)) return state;
  state.known = true;
  words >> std::hex;
  std::string word;
  const auto number = [&words, &word]() -> std::uint64_t {
    std::uint64_t value = 0;
    if (!(words >> word) || !word.starts_with("0x")) return 0;
    std::from_chars(word.data() + 2, word.data() + word.size(), value, 16);
    return value;
  };
  if (state.number >= 0)
    for (auto& argument : state.arguments) argument = number();
  state.stack = number();
  state.at = number();
  return state;
}

SystemCallState read_system_call(pid_t pid, pid_t tid) {
  return parse_system_call(read_proc(pid, "task/" + std::to_string(tid) + "/syscall"));
}

std::optional<double> seconds_since_run(pid_t pid, pid_t tid) {
  const auto theirs = exec_start(read_proc(pid, "task/" + std::to_string(tid) + "/sched"));
  // The same clock, now: this thread is on a processor. It is right to a tick of the scheduler.
  const auto ours = exec_start(read_proc(::getpid(), "sched"));
  if (!theirs || !ours || *theirs <= 0) return std::nullopt;
  return std::max(0.0, (*ours - *theirs) / 1000);
}

std::vector<Mapping> parse_maps(const std::string& text) {
  std::vector<Mapping> mappings;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Mapping mapping;
    std::array<char, 5> rights{};
    std::array<char, 24> device{};
    int path = 0;
    if (std::sscanf(line.c_str(),  // NOLINT
                    "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %23s %" SCNu64 " %n", &mapping.start,
                    &mapping.end, rights.data(), &mapping.offset, device.data(), &mapping.inode,
                    &path) < 6)
      continue;
    mapping.writable = rights[1] == 'w';
    mapping.executable = rights[2] == 'x';
    mapping.device = device.data();
    mapping.path = line.substr(static_cast<std::size_t>(path));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

std::vector<Mapping> read_maps(pid_t pid) {
  return parse_maps(read_proc(pid, "maps"));
}

std::string pid_and_name(pid_t pid) {
  const auto stat = read_stat(pid);
  return std::to_string(pid) + (stat ? " (" + stat->name + ")" : "");
}

}  // namespace hvdrun
