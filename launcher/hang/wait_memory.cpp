#include "hang/wait_memory.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

// A look stops a thread twice, and each time it leaves its processor twice: for the stop, and when
// it waits again. On a busy machine it may do so once more.
constexpr std::uint64_t kSwitchesOfALook = 6;
constexpr double kCpuOfALook = 0.03;  // seconds; the kernel has hundredths

}  // namespace

void WaitMemory::take(std::vector<RankFacts>& ranks, double seconds) {
  std::map<std::pair<int, pid_t>, Wait> now;
  for (auto& rank : ranks) {
    for (auto& look : rank.looks) {
      for (auto& thread : look.threads) {
        if (thread.tid == 0 || thread.stack.empty()) continue;
        Wait wait{seconds - thread.waiting_seconds.value_or(0), thread.system_call, thread.stack,
                  thread.switches, thread.cpu_seconds};
        const auto before = waits_.find({rank.rank, thread.tid});
        if (before != waits_.end()) {
          const auto& was = before->second;
          const bool continues = was.system_call == wait.system_call && was.stack == wait.stack &&
                                 wait.switches - was.switches <= kSwitchesOfALook &&
                                 wait.cpu_seconds - was.cpu_seconds <= kCpuOfALook;
          if (continues) {
            wait.began = std::min(wait.began, was.began);
            thread.waiting_seconds = seconds - wait.began;
          }
        }
        if (thread.waiting_seconds) now[{rank.rank, thread.tid}] = std::move(wait);
      }
    }
  }
  waits_ = std::move(now);
}

}  // namespace hvdrun
