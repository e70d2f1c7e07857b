#include "agent/process_activity.hpp"

#include "look/system_calls.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

// A chain of programs that each start one other is followed to this depth.
constexpr int kMostParents = 8;

std::string read_proc(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns nullopt if the process does not have exactly one child.
std::optional<pid_t> only_child(pid_t pid) {
  std::istringstream words(read_proc(pid, "task/" + std::to_string(pid) + "/children"));
  pid_t child = 0;
  pid_t second = 0;
  if (!(words >> child) || words >> second) return {};
  return child;
}

// Takes the name and the CPU time from /proc/PID/stat: "PID (NAME) S …", fields 14 and 15 in ticks.
void read_stat(const std::string& stat, RankActivity& activity) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  activity.program = stat.substr(open + 1, close - open - 1);
  std::istringstream fields(stat.substr(close + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  if (fields >> user >> system)
    activity.cpu_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

std::string system_call_in(const std::string& text, std::string_view wait_channel) {
  const std::string_view word = std::string_view(text).substr(0, text.find_first_of(" \n"));
  if (word == "running") return "computing";
  long number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) return {};
  return system_call_name(resumed_call(number, wait_channel));
}

RankActivity activity_of(pid_t pid) {
  RankActivity activity;
  for (int depth = 0; depth < kMostParents; ++depth) {
    activity = {};
    activity.pid = pid;
    read_stat(read_proc(pid, "stat"), activity);
    activity.system_call = system_call_in(read_proc(pid, "syscall"), read_proc(pid, "wchan"));
    const bool waits = activity.system_call == "wait4" || activity.system_call == "waitid";
    const auto child = waits ? only_child(pid) : std::nullopt;
    if (!child) break;
    pid = *child;
  }
  return activity;
}

}  // namespace hvdrun
