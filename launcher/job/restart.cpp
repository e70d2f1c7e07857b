#include "job/restart.hpp"

#include "placement/place.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

bool is_worth_a_restart(EndKind kind) {
  switch (kind) {
    case EndKind::rank_failed:
    case EndKind::agent_lost:
    case EndKind::start_timeout:
      return true;
    case EndKind::well:
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

Allocation remaining_hosts(Allocation allocation, const std::vector<std::string>& lost,
                           std::string_view this_host) {
  std::erase_if(allocation.hosts, [&](const Host& host) {
    return host.name != this_host && std::find(lost.begin(), lost.end(), host.name) != lost.end();
  });
  return allocation;
}

Result<Placement> place_again(JobSpec spec, const Allocation& rest, int size) {
  spec.ranks = size;
  auto placement = place(spec, rest);
  if (placement) return placement;
  return tl::unexpected(with_context(
      fmt::format("{} rank{} not fit on what is left", size, size == 1 ? " does" : "s do"),
      std::move(placement).error()));
}

}  // namespace hvdrun
