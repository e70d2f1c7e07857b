#include "job/plan.hpp"

#include "common/text.hpp"
#include "resources/place.hpp"
#include "resources/placement_table.hpp"
#include "resources/slots.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

Result<void> check_rank(const char* option, int rank, int size) {
  if (rank < size) return {};
  return fail(size == 1
                  ? fmt::format("{} names rank {}, but the job has 1 rank: its only rank is 0",
                                option, rank)
                  : fmt::format("{} names rank {}, but the job has {} ranks: its ranks are 0-{}",
                                option, rank, size, size - 1),
              kExitUsage);
}

// Returns how many ranks are asked for. With --max-np: as many as there are slots, up to that.
// nullopt: one per slot.
std::optional<int> first_ranks(const JobSpec& spec, const Allocation& allocation) {
  if (!spec.elastic.max_ranks) return spec.ranks;
  int slots = 0;
  for (const auto& host : allocation.hosts) {
    if (!host.slots && !spec.ranks_per_host) return std::nullopt;  // they are asked
    slots += spec.ranks_per_host ? *spec.ranks_per_host : *host.slots;
  }
  return std::max(spec.ranks.value_or(1), std::min(slots, *spec.elastic.max_ranks));
}

}  // namespace

bool is_final(const Placement& placement) {
  return placement.to_ask.empty() &&
         std::none_of(placement.hosts.begin(), placement.hosts.end(),
                      [](const auto& host) { return host.is_provisional; });
}

std::vector<Host> hosts_to_start(const Plan& plan) {
  if (!plan.placement.to_ask.empty()) return plan.allocation.hosts;
  std::vector<Host> hosts;
  for (const auto& host : plan.allocation.hosts)
    if (std::any_of(plan.placement.hosts.begin(), plan.placement.hosts.end(),
                    [&](const auto& placed) { return placed.host == host.name; }))
      hosts.push_back(host);
  return hosts;
}

std::size_t expected_ranks(const Plan& plan, const std::string& host) {
  for (const auto& placed : plan.placement.hosts)
    if (placed.host == host) return placed.ranks.size() + placed.spares.size();
  return 0;
}

void take_inventory(const JobSpec& spec, const std::string& host, HostInventory inventory,
                    Plan& plan) {
  auto& hosts = plan.allocation.hosts;
  const auto known =
      std::find_if(hosts.begin(), hosts.end(), [&](const Host& each) { return each.name == host; });
  if (known != hosts.end()) take_inventory(spec, std::move(inventory), *known);
}

Result<void> place_ranks(const JobSpec& spec, Plan& plan) {
  JobSpec sized = spec;
  sized.ranks = plan.size ? plan.size : first_ranks(spec, plan.allocation);
  HVD_TRY(plan.placement, place(sized, plan.allocation));
  if (is_final(plan.placement)) plan.size = plan.placement.size;
  return {};
}

Result<void> place_ranks_on(const JobSpec& spec, const std::set<std::string>& asked, Plan& plan) {
  Plan tried = plan;
  for (auto& host : tried.allocation.hosts) {
    if (asked.contains(host.name)) continue;
    host.slots = host.max_slots = 0;
    host.slots_fixed = true;
    host.slots_source = "it was not asked";
  }
  HVD_CHECK(place_ranks(spec, tried));
  plan.placement = std::move(tried.placement);
  plan.size = tried.size;
  return {};
}

std::vector<std::string> plan_lines(const JobSpec& spec, const Plan& plan) {
  std::vector<std::string> lines;
  if (spec.verbosity > 0) {
    const auto table = placement_table(plan.allocation, plan.placement);
    for (std::string_view rest = table; !rest.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size());
      lines.push_back("  " + std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } else {
    lines = plan.placement.notes;
  }
  if (spec.report_bindings)
    for (auto& line : bindings_lines(plan.allocation, plan.placement))
      lines.push_back(std::move(line));
  return lines;
}

Result<void> settle_named_ranks(JobSpec& spec, const Plan& plan) {
  auto& shown = spec.output.only_ranks;
  auto& wrapped = spec.wrap.ranks;
  auto& terminal = spec.output.terminal_rank;
  const bool is_input = spec.input.to == InputSpec::To::rank;
  const bool needs_size = (shown && shown->needs_size()) || (wrapped && wrapped->needs_size()) ||
                          terminal.value_or(0) < 0 || (is_input && spec.input.rank < 0);
  if (!needs_size) return {};
  const int size = is_final(plan.placement) ? plan.placement.size : spec.ranks.value_or(0);
  if (size == 0)
    return fail(
        "the last rank is not known before the hosts are asked how many slots they have: add -np N",
        kExitUsage);
  if (shown) HVD_CHECK(shown->settle(size));
  if (wrapped) HVD_CHECK(wrapped->settle(size));
  if (terminal) {
    HVD_TRY(terminal, settled_rank(*terminal, size));
  }
  if (is_input) {
    HVD_TRY(spec.input.rank, settled_rank(spec.input.rank, size));
  }
  return {};
}

Result<void> check_named_ranks(const JobSpec& spec, int size) {
  // Ranks that are started later have higher numbers.
  const bool may_grow = spec.elastic.replaces || spec.elastic.spares > 0;
  if (spec.output.only_ranks && !spec.output.only_ranks->empty() && !may_grow)
    HVD_CHECK(check_rank("--only-rank", spec.output.only_ranks->highest(), size));
  if (const auto rank = spec.output.terminal_rank) HVD_CHECK(check_rank("--tty", *rank, size));
  if (spec.wrap.ranks) HVD_CHECK(check_rank("--wrap", spec.wrap.ranks->highest(), size));
  if (spec.input.to == InputSpec::To::rank) HVD_CHECK(check_rank("--stdin", spec.input.rank, size));
  if (const auto least = spec.elastic.min_ranks; least && *least > size)
    return fail(
        fmt::format("--min-np {} is more than the {} of the job", *least, plural(size, "rank")),
        kExitUsage);
  return {};
}

}  // namespace hvdrun
