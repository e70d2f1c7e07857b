#include "agent/user_signals.hpp"

#include "agent/folder_removals.hpp"
#include "agent/pipe_writes.hpp"
#include "agent/signal_targets.hpp"
#include "base/passed_signals.hpp"
#include "schedulers/schedulers.hpp"

#include <csignal>
#include <utility>

namespace hvdrun {
namespace {

// A signal that both a scheduler and the launcher send comes from the second one within this time.
constexpr std::chrono::seconds kSameSignal{1};
// The launcher may ask the scheduler before it stops the ranks for a signal.
constexpr std::chrono::seconds kSameStop{5};
// In a step: how long a signal of the launcher waits for the scheduler's.
constexpr std::chrono::milliseconds kWaitForScheduler{200};

}  // namespace

std::vector<int> watched_signals() {
  auto signals = step_signals();
  for (const int reserved : PipeWrites::signals()) std::erase(signals, reserved);
  std::erase(signals, FolderRemovals::signal());
  signals.push_back(SIGCHLD);
  return signals;
}

void block_only(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
}

UserSignals::UserSignals(const EventLoop& loop, const RankProcesses& ranks, bool in_step,
                         std::function<void(int)> report)
    : ranks_(ranks), in_step_(in_step), report_(std::move(report)), wait_(loop, [this] {
        for (const int signal : std::exchange(waiting_, {})) send(signal);
      }) {}

void UserSignals::pass_on(int signal) {
  if (!in_step_) return send(signal);
  waiting_.push_back(signal);
  if (!wait_.pending()) wait_.start(kWaitForScheduler);
}

bool UserSignals::take(int signal, pid_t sender) {
  if (!is_scheduler(sender)) return false;
  from_scheduler_[signal] = Clock::now();
  if (in_step_) report_(signal);  // otherwise the launcher has got it, too
  return true;
}

bool UserSignals::ranks_have_had(int signal) const {
  const auto known = from_scheduler_.find(signal);
  return known != from_scheduler_.end() && Clock::now() - known->second < kSameStop;
}

void UserSignals::send(int signal) {
  const auto known = from_scheduler_.extract(signal);
  if (!known.empty() && Clock::now() - known.mapped() < kSameSignal) return;
  std::vector<ProcessInfo> processes;  // listed once, for the ranks that need it
  for (const auto& rank : ranks_.all())
    if (rank.alive) send_to(rank.pid, signal, processes);
}

void UserSignals::send_to(pid_t first, int signal, std::vector<ProcessInfo>& processes) const {
  if (use_of(first, signal) != SignalUse::handles) {
    if (processes.empty()) processes = all_processes();
    const auto look = [signal](pid_t pid) { return SignalLook{use_of(pid, signal)}; };
    const auto targets = targets_in(first, processes, look).now;
    for (const auto& process : targets) send_signal(process, signal);
    if (!targets.empty()) return;
  }
  ::kill(first, signal);
}

}  // namespace hvdrun
