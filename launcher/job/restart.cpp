#include "job/restart.hpp"

#include "base/result.hpp"

#include <algorithm>

namespace hvdrun {

bool is_worth_a_restart(EndKind kind) {
  switch (kind) {
    case EndKind::rank_failed:
    case EndKind::agent_lost:
    case EndKind::start_timeout:
    case EndKind::quiet_timeout:
      return true;
    case EndKind::succeeded:
    case EndKind::stopped_early:
    case EndKind::exit_timeout:
    case EndKind::interrupted:
    case EndKind::output_failed:
    case EndKind::refused:
      return false;
  }
  return false;
}

EndKind kind_of_agent_failure(int exit_code) {
  return exit_code == kExitLauncher ? EndKind::agent_lost : EndKind::refused;
}

void UsableHosts::attempt_ended(const Allocation& used, const LostHosts& lost) {
  const auto given = allocation();
  for (const auto& host : given.hosts) {
    const auto at = std::ranges::find(all_.hosts, host.name, &Host::name);
    const auto after = std::ranges::find(used.hosts, host.name, &Host::name);
    left_out_.erase(host.name);
    const bool was_lost = std::ranges::count(lost.others, host.name) > 0;
    if (!was_lost) taken_back_.erase(host.name);
    if (after == used.hosts.end()) {
      all_.hosts.erase(at);  // another name of a host that stays
      continue;
    }
    *at = *after;
    if (host.is_this_machine) continue;
    if (was_lost) left_out_.insert(host.name);
    if (std::ranges::count(lost.silent, host.name) > 0) silent_.insert(host.name);
  }
}

Allocation UsableHosts::allocation() const {
  auto usable = all_;
  std::erase_if(usable.hosts, [this](const Host& host) {
    return silent_.contains(host.name) || left_out_.contains(host.name);
  });
  return usable;
}

std::vector<std::string> UsableHosts::take_back() {
  std::vector<std::string> names;
  for (const auto& name : left_out_)
    if (!taken_back_.contains(name)) names.push_back(name);
  for (const auto& name : names) {
    left_out_.erase(name);
    taken_back_.insert(name);
  }
  return names;
}

}  // namespace hvdrun
