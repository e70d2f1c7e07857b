#include "agent/user_signals.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

namespace hvdrun {
namespace {

// A signal that both SLURM and the launcher send comes from the second one within this time.
constexpr std::chrono::seconds kSameSignal{1};
// In a step: how long a signal of the launcher waits for SLURM's.
constexpr std::chrono::milliseconds kWaitForSlurm{200};

std::string name_of(pid_t pid) {
  return first_line_of("/proc/" + std::to_string(pid) + "/comm");
}

}  // namespace

SignalUse use_of(pid_t pid, int signal) {
  std::istringstream status(content_of("/proc/" + std::to_string(pid) + "/status"));
  SignalUse use = SignalUse::none;
  for (std::string line; std::getline(status, line);) {
    const bool blocked = line.starts_with("SigBlk:");
    if (!blocked && !line.starts_with("SigCgt:")) continue;
    const auto set = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16);
    if ((set >> (signal - 1) & 1) != 0)
      use = std::max(use, blocked ? SignalUse::waits : SignalUse::handles);
  }
  return use;
}

std::vector<ProcessInfo> users_below(pid_t first, int signal, SignalUse use,
                                     const std::vector<ProcessInfo>& processes) {
  std::vector<ProcessInfo> users;
  std::vector<pid_t> open{first};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (const auto& process : processes) {
      if (process.parent != parent) continue;
      if (use_of(process.pid, signal) == use)
        users.push_back(process);
      else
        open.push_back(process.pid);
    }
  }
  return users;
}

UserSignals::UserSignals(const EventLoop& loop, const RankProcesses& ranks, bool in_step,
                         std::function<void(int)> report)
    : ranks_(ranks), in_step_(in_step), report_(std::move(report)), wait_(loop, [this] {
        for (const int signal : std::exchange(waiting_, {})) send(signal);
      }) {}

void UserSignals::pass_on(int signal) {
  if (!in_step_) return send(signal);
  waiting_.push_back(signal);
  if (!wait_.pending()) wait_.start(kWaitForSlurm);
}

void UserSignals::came_from(pid_t sender, int signal) {
  // Others who signal this process by mistake do not signal the ranks.
  if (name_of(sender) != "slurmstepd") return;
  from_slurm_[signal] = Clock::now();
  if (in_step_) report_(signal);  // otherwise the launcher has got it, too
}

void UserSignals::send(int signal) {
  const auto known = from_slurm_.extract(signal);
  if (!known.empty() && Clock::now() - known.mapped() < kSameSignal) return;
  std::vector<ProcessInfo> processes;  // listed once, for the ranks that need it
  for (const auto& rank : ranks_.all())
    if (rank.alive) send_to(rank.pid, signal, processes);
}

void UserSignals::send_to(pid_t first, int signal, std::vector<ProcessInfo>& processes) const {
  const auto own = use_of(first, signal);
  for (const auto use : {SignalUse::handles, SignalUse::waits}) {
    if (own == use) break;
    if (processes.empty()) processes = all_processes();
    const auto users = users_below(first, signal, use, processes);
    for (const auto& process : users) send_signal(process, signal);
    if (!users.empty()) return;
  }
  ::kill(first, signal);
}

}  // namespace hvdrun
