#include "agent/rank_stop.hpp"

#include <algorithm>
#include <csignal>

#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// How soon it is seen that a process has ended which is no child of ours.
constexpr milliseconds kLookAgain{20};
// What wrappers and workers have before SIGKILL: this part of the grace period, at most this time.
constexpr int kRestPart = 4;
constexpr milliseconds kMostRest{1000};

}  // namespace

RankStop::RankStop(const EventLoop& loop, const RankProcesses& ranks)
    : ranks_(ranks),
      look_again_(loop,
                  [this] {
                    look();
                    if (!trees_.empty()) look_again_.start(kLookAgain);
                  }),
      last_call_(loop, [this] { send_to_rest(); }) {}

void RankStop::begin(int signal, milliseconds grace, bool was_sent) {
  cancel();
  signal_ = signal;
  const auto processes = all_processes();
  for (const auto& process : descendants_of(::getpid(), processes))
    there_.emplace(process.pid, process.start);
  if (signal == SIGINT || processes.empty()) return ranks_.signal_all({signal, SIGCONT});
  if (!was_sent) {
    const auto all = roots(processes);
    for (const pid_t root : all) begin_tree(root, processes);
    if (trees_.empty()) return ranks_.signal_all({signal, SIGCONT});
    // The trees in which nothing handles it.
    for (const pid_t root : all)
      if (std::ranges::find(trees_, root, &Tree::root) == trees_.end())
        send_to_tree(root, processes);
  }
  ranks_.signal_all({SIGCONT});  // a stopped process takes a signal only when it runs again
  if (!trees_.empty()) look_again_.start(kLookAgain);
  extend(grace);
}

void RankStop::extend(milliseconds grace) {
  last_call_.start(grace - std::min(grace / kRestPart, kMostRest));
}

// Returns the ranks. When all have ended, returns what they have left to us.
std::vector<pid_t> RankStop::roots(const std::vector<ProcessInfo>& processes) const {
  std::vector<pid_t> roots;
  for (const auto& rank : ranks_.all())
    if (rank.alive) roots.push_back(rank.pid);
  if (!roots.empty()) return roots;
  for (const auto& process : processes)
    if (process.parent == ::getpid() && !is_dead(process)) roots.push_back(process.pid);
  return roots;
}

// Sends it to the targets in this tree, if the rest is to wait for them.
void RankStop::begin_tree(pid_t root, const std::vector<ProcessInfo>& processes) {
  auto targets = targets_in(root, processes, [this](pid_t pid) { return look_at(pid, signal_); });
  if (targets.awaited.empty()) return;
  send_to_all(targets.now);
  trees_.push_back({root, std::move(targets.awaited)});
}

void RankStop::send_to_all(const std::vector<ProcessInfo>& processes) {
  for (const auto& process : processes)
    if (told_.emplace(process.pid, process.start).second) send_signal(process, signal_);
}

// Sends it to what is left of the tree, also to what has lost its parents.
void RankStop::send_to_tree(pid_t root, const std::vector<ProcessInfo>& processes) {
  std::set<pid_t> below;
  for (const auto& process : descendants_of(root, processes)) below.insert(process.pid);
  auto rest = rest_of(processes);
  std::erase_if(rest, [&](const ProcessInfo& process) {
    return process.pid != root && process.session != root && !below.contains(process.pid);
  });
  send_to_all(rest);
}

// Returns all processes of the ranks but those that were started since the stop began by one that
// has got the signal and handles it.
std::vector<ProcessInfo> RankStop::rest_of(const std::vector<ProcessInfo>& processes) const {
  std::set<pid_t> spared;
  for (const auto& process : processes)
    if (told_.contains({process.pid, process.start}) &&
        use_of(process.pid, signal_) == SignalUse::handles)
      for (const auto& below : descendants_of(process.pid, processes))
        if (!there_.contains({below.pid, below.start})) spared.insert(below.pid);
  auto rest = descendants_of(::getpid(), processes);
  std::erase_if(rest, [&](const ProcessInfo& process) { return spared.contains(process.pid); });
  return rest;
}

void RankStop::look() {
  if (trees_.empty()) return;
  std::vector<pid_t> over;
  for (auto& [root, awaited] : trees_) {
    std::erase_if(awaited, has_ended);
    if (awaited.empty()) over.push_back(root);
  }
  if (over.empty()) return;
  std::erase_if(trees_, [](const Tree& tree) { return tree.awaited.empty(); });
  const auto processes = all_processes();
  for (const pid_t root : over) send_to_tree(root, processes);
  if (trees_.empty()) send_to_all(rest_of(processes));
}

void RankStop::send_to_rest() {
  trees_.clear();
  last_call_.cancel();
  send_to_all(descendants_of(::getpid(), all_processes()));
}

void RankStop::cancel() {
  trees_.clear();
  there_.clear();
  told_.clear();
  look_again_.cancel();
  last_call_.cancel();
}

}  // namespace hvdrun
