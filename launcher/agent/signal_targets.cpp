#include "agent/signal_targets.hpp"

#include "agent/process_activity.hpp"
#include "common/file_content.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace hvdrun {
namespace {

// Finds the targets of one kind of use.
class Search {
 public:
  Search(const std::vector<ProcessInfo>& processes, const std::function<SignalLook(pid_t)>& look,
         SignalUse use)
      : look_(look), use_(use) {
    for (const auto& process : processes)
      if (!is_dead(process)) children_.emplace(process.parent, &process);
  }

  // Returns whether the process, or one below it, is a target.
  bool visit(const ProcessInfo& process) {
    const auto seen = look_(process.pid);
    if (seen.use == use_) {
      found_.now.push_back(process);
      if (!seen.waits_for_child || visit_as_trees(process.pid)) found_.awaited.push_back(process);
      return true;
    }
    bool is_used = false;
    for_children(process.pid, [&](const ProcessInfo& child) { is_used |= visit(child); });
    return is_used;
  }

  SignalTargets take() { return std::move(found_); }

 private:
  template <class Visitor>
  void for_children(pid_t parent, const Visitor& visitor) const {
    const auto [first, last] = children_.equal_range(parent);
    for (auto at = first; at != last; ++at) visitor(*at->second);
  }

  // Returns whether the parent is to be awaited: it alone may end its child in the background.
  bool visit_as_trees(pid_t parent) {
    bool one_is_target = false;
    bool one_is_left = false;
    std::vector<const ProcessInfo*> others;  // such as the tee of a pipeline
    for_children(parent, [&](const ProcessInfo& child) {
      if (look_(child.pid).ignores_quit)
        one_is_left = true;
      else if (visit(child))
        one_is_target = true;
      else
        others.push_back(&child);
    });
    if (!one_is_target)
      for (const auto* child : others) add_all(*child);
    return one_is_left && !one_is_target;
  }

  void add_all(const ProcessInfo& process) {
    found_.now.push_back(process);
    for_children(process.pid, [this](const ProcessInfo& child) { add_all(child); });
  }

  std::unordered_multimap<pid_t, const ProcessInfo*> children_;
  const std::function<SignalLook(pid_t)>& look_;
  const SignalUse use_;
  SignalTargets found_;
};

bool has_one_thread(const std::string& status) {
  const auto at = status.find("\nThreads:");
  return at != std::string::npos && std::atoi(status.c_str() + at + 9) == 1;
}

// Returns whether the signal is in this set of /proc/PID/status: "\nSigCgt:".
bool is_in_set(const std::string& status, const char* name, int signal) {
  const auto at = status.find(name);
  if (at == std::string::npos) return false;
  const auto set = std::strtoull(status.c_str() + status.find(':', at) + 1, nullptr, 16);
  return (set >> (signal - 1) & 1) != 0;
}

SignalUse use_in(const std::string& status, int signal) {
  if (is_in_set(status, "\nSigCgt:", signal)) return SignalUse::handles;
  return is_in_set(status, "\nSigBlk:", signal) ? SignalUse::waits : SignalUse::none;
}

// Returns the names of the programs in /etc/shells: "bash", "zsh".
std::set<std::string> names_of_shells() {
  std::set<std::string> names;
  std::istringstream lines(content_of("/etc/shells"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with('/')) names.insert(line.substr(line.find_last_of('/') + 1));
  return names;
}

// A shell waits for its child in different calls: zsh and mksh in sigsuspend(2), as timeout(1).
bool is_shell(const std::string& folder) {
  static const auto names = names_of_shells();
  std::error_code ignored;
  return names.contains(std::filesystem::read_symlink(folder + "/exe", ignored).filename());
}

}  // namespace

SignalUse use_of(pid_t pid, int signal) {
  return use_in(content_of("/proc/" + std::to_string(pid) + "/status"), signal);
}

SignalLook look_at(pid_t pid, int signal) {
  const auto folder = "/proc/" + std::to_string(pid);
  const auto status = content_of(folder + "/status");
  SignalLook look{use_in(status, signal)};
  look.ignores_quit = is_in_set(status, "\nSigIgn:", SIGQUIT);
  if (look.use == SignalUse::none) return look;
  look.waits_for_child = is_shell(folder);
  if (look.waits_for_child || !has_one_thread(status)) return look;
  const auto channel = content_of(folder + "/wchan");
  const auto call = system_call_in(content_of(folder + "/syscall"), channel);
  look.waits_for_child = call == "wait4" || call == "waitid" || channel == "do_wait";
  return look;
}

SignalTargets targets_in(pid_t root, const std::vector<ProcessInfo>& processes,
                         const std::function<SignalLook(pid_t)>& look) {
  const auto first = std::find_if(processes.begin(), processes.end(),
                                  [root](const auto& each) { return each.pid == root; });
  if (first == processes.end()) return {};
  for (const auto use : {SignalUse::handles, SignalUse::waits}) {
    Search search(processes, look, use);
    if (search.visit(*first)) return search.take();
  }
  return {};
}

}  // namespace hvdrun
