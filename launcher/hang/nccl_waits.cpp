#include "hang/nccl_waits.hpp"

#include "common/text.hpp"
#include "hang/rank_place.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Calls = std::map<std::string, std::uint64_t>;

// Finds the ranks of members.
class Finder {
 public:
  Finder(const std::vector<NcclCommunicator>& communicators,
         const std::vector<HostProcesses>& hosts) {
    std::map<std::string, std::set<pid_t>> pids;
    for (const auto& communicator : communicators)
      for (const auto& member : communicator.members)
        if (member.pid > 0) pids[member.host].insert(member.pid);
    for (const auto& host : hosts)
      for (const auto& [pid, rank] : host.ranks) ranks_.insert(rank);
    for (const auto& [name, of_host] : pids) hosts_[name] = host_with(name, of_host, hosts);
  }

  const std::set<int>& ranks() const { return ranks_; }

  std::optional<int> rank_of(const NcclMember& member) const {
    const auto host = hosts_.find(member.host);
    if (host == hosts_.end() || host->second == nullptr) return std::nullopt;
    const auto rank = host->second->ranks.find(member.pid);
    if (rank == host->second->ranks.end()) return std::nullopt;
    return rank->second;
  }

 private:
  // Returns null if there is no such host, or several.
  static const HostProcesses* host_with(const std::string& name, const std::set<pid_t>& pids,
                                        const std::vector<HostProcesses>& hosts) {
    const HostProcesses* found = nullptr;
    for (const auto& host : hosts) {
      if (!std::ranges::all_of(pids, [&](pid_t pid) { return host.ranks.contains(pid); })) continue;
      if (host.address == name) return &host;
      if (found != nullptr) return nullptr;
      found = &host;
    }
    return found;
  }

  std::set<int> ranks_;                                // all
  std::map<std::string, const HostProcesses*> hosts_;  // by RAS's name of it
};

std::uint64_t sum_of(const Calls& calls) {
  return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& count) { return sum + count.second; });
}

std::uint64_t count_in(const Calls& calls, const std::string& function) {
  const auto at = calls.find(function);
  return at == calls.end() ? 0 : at->second;
}

// Adds the wait of those that have called more of the function than `late`, for all that have not.
void add_wait(const NcclCommunicator& communicator, const Finder& finder,
              const std::string& function, std::uint64_t late, std::vector<CollectiveWait>& waits) {
  std::set<int> missing;
  std::set<int> waiting;
  std::set<int> silent;
  for (const auto& member : communicator.members) {
    const auto rank = finder.rank_of(member);
    if (member.silent) {
      if (rank) silent.insert(*rank);
      continue;
    }
    const bool is_late = count_in(member.calls, function) <= late;
    if (is_late && !rank) return;  // it may be one of another job
    if (rank) (is_late ? missing : waiting).insert(*rank);
  }
  // Of a communicator of all ranks those that are not named are the others.
  if (communicator.members.size() == finder.ranks().size()) waiting = finder.ranks();
  for (const int rank : silent) waiting.erase(rank);
  for (const int rank : missing) waiting.erase(rank);  // also one with several processes
  if (missing.empty() || waiting.empty()) return;
  CollectiveWait wait;
  wait.collective = fmt::format("{} {} of the NCCL communicator of {}", printable(function),
                                with_commas(late + 1), plural(communicator.members.size(), "rank"));
  wait.missing.assign(missing.begin(), missing.end());
  wait.waiting.assign(waiting.begin(), waiting.end());
  waits.push_back(std::move(wait));
}

// All ranks call the collectives of a communicator in the same order. So of two ranks one has
// called all that the other has, or they have called different ones.
void add_waits(const NcclCommunicator& communicator, const Finder& finder,
               std::vector<CollectiveWait>& waits) {
  const NcclMember* last = nullptr;  // that has called the fewest
  Calls most;
  for (const auto& member : communicator.members) {
    if (member.silent) continue;
    if (last == nullptr || sum_of(member.calls) < sum_of(last->calls)) last = &member;
    for (const auto& [function, count] : member.calls)
      most[function] = std::max(most[function], count);
  }
  if (last == nullptr) return;
  bool is_prefix = true;  // all others have called what it has
  for (const auto& member : communicator.members)
    for (const auto& [function, count] : member.calls)
      if (count < count_in(last->calls, function)) is_prefix = false;
  if (is_prefix) {
    const auto late_by = [&](const auto& one) {
      return one.second - count_in(last->calls, one.first);
    };
    const auto function = std::ranges::max_element(most, {}, late_by);
    if (function != most.end() && late_by(*function) > 0)
      add_wait(communicator, finder, function->first, count_in(last->calls, function->first),
               waits);
    return;
  }
  for (const auto& one : most) {
    const auto differs = [&](const NcclMember& member) {
      return !member.silent && count_in(member.calls, one.first) < one.second;
    };
    if (std::ranges::any_of(communicator.members, differs))
      add_wait(communicator, finder, one.first, one.second - 1, waits);
  }
}

}  // namespace

NcclFacts find_nccl_waits(const std::vector<NcclCommunicator>& communicators,
                          const std::vector<HostProcesses>& hosts) {
  const Finder finder(communicators, hosts);
  NcclFacts facts;
  std::set<int> silent;
  for (const auto& communicator : communicators) {
    add_waits(communicator, finder, facts.waits);
    for (const auto& member : communicator.members)
      if (const auto rank = member.silent ? finder.rank_of(member) : std::nullopt)
        silent.insert(*rank);
  }
  facts.silent.assign(silent.begin(), silent.end());
  std::ranges::stable_sort(facts.waits, std::greater<>(),
                           [](const CollectiveWait& wait) { return wait.waiting.size(); });
  return facts;
}

}  // namespace hvdrun
