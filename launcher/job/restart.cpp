#include "job/restart.hpp"

#include "base/result.hpp"

#include <algorithm>

namespace hvdrun {

bool is_worth_a_restart(EndKind kind) {
  switch (kind) {
    case EndKind::rank_failed:
    case EndKind::agent_lost:
    case EndKind::start_timeout:
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

Allocation remaining_hosts(Allocation allocation, const std::vector<std::string>& lost) {
  std::erase_if(allocation.hosts, [&](const Host& host) {
    return !host.is_this_machine && std::find(lost.begin(), lost.end(), host.name) != lost.end();
  });
  return allocation;
}

}  // namespace hvdrun
