#include "agent/process_activity.hpp"

#include "look/proc_files.hpp"
#include "look/system_calls.hpp"

#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

// A chain of programs that each start one other is followed to this depth.
constexpr int kMostParents = 8;

// Returns nullopt if the process does not have exactly one child.
std::optional<pid_t> only_child(pid_t pid) {
  std::istringstream words(read_proc(pid, "task/" + std::to_string(pid) + "/children"));
  pid_t child = 0;
  pid_t second = 0;
  if (!(words >> child) || words >> second) return {};
  return child;
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
    if (auto stat = read_stat(pid)) {
      activity.program = std::move(stat->name);
      activity.cpu_seconds = stat->cpu_seconds;
    }
    activity.system_call = system_call_in(read_proc(pid, "syscall"), read_proc(pid, "wchan"));
    const bool waits = activity.system_call == "wait4" || activity.system_call == "waitid";
    const auto child = waits ? only_child(pid) : std::nullopt;
    if (!child) break;
    pid = *child;
  }
  return activity;
}

}  // namespace hvdrun
