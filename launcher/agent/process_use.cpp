#include "agent/process_use.hpp"

#include <unordered_map>

#include <unistd.h>

namespace hvdrun {
namespace {

// A chain of parents is followed to this length: parents may change while they are read.
constexpr int kLongestChain = 100;

}  // namespace

std::map<pid_t, ProcessUse> use_by_root(const std::vector<pid_t>& roots,
                                        const std::vector<ProcessInfo>& processes) {
  std::map<pid_t, ProcessUse> uses;
  std::unordered_map<pid_t, const ProcessInfo*> by_pid;
  for (const auto& process : processes) by_pid.emplace(process.pid, &process);
  for (const pid_t root : roots)
    if (by_pid.contains(root)) uses.emplace(root, ProcessUse{});
  const auto find_root = [&](const ProcessInfo& process) {
    if (const auto found = uses.find(process.session); found != uses.end()) return found;
    const auto* at = &process;
    for (int i = 0; i < kLongestChain; ++i) {
      if (const auto found = uses.find(at->pid); found != uses.end()) return found;
      const auto parent = by_pid.find(at->parent);
      if (parent == by_pid.end()) break;
      at = parent->second;
    }
    return uses.end();
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& process : processes) {
    const auto root = find_root(process);
    if (root == uses.end()) continue;
    auto& use = root->second;
    if (!is_dead(process)) ++use.processes;
    use.cpu_seconds += static_cast<double>(process.cpu_ticks) / ticks;
    use.memory_bytes += process.resident_pages * page;
  }
  return uses;
}

}  // namespace hvdrun
