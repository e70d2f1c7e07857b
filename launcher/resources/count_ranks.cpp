#include "resources/count_ranks.hpp"

#include "common/text.hpp"
#include "model/gpu_vendor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using PerHost = std::vector<int>;  // a number for each host, in the allocation's order

// Returns the most ranks that the host may have.
int limit_of(const JobSpec& spec, const Host& host) {
  if (spec.oversubscribe)
    return std::min(kMaxRanksPerHost, host.max_slots.value_or(kMaxRanksPerHost));
  int limit = kMaxRanksPerHost;
  if (host.slots_fixed) limit = std::min(limit, *host.slots);
  if (ranks_get_gpus(spec, host)) limit = std::min(limit, count_gpus(host));
  return limit;
}

PerHost limits_of(const JobSpec& spec, const Allocation& allocation) {
  PerHost limits;
  for (const auto& host : allocation.hosts) limits.push_back(limit_of(spec, host));
  return limits;
}

std::int64_t sum(const PerHost& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

// Says what limits the host: "n1 has 4 GPUs (NVML)".
std::string say_limit(const JobSpec& spec, const Host& host) {
  const int limit = limit_of(spec, host);
  if (spec.oversubscribe) return fmt::format("{} takes {}", host.name, plural(limit, "rank"));
  if (ranks_get_gpus(spec, host) && limit == count_gpus(host))
    return fmt::format("{} has {} ({})", host.name, plural(limit, "GPU"),
                       host.inventory ? host.inventory->gpu_source : host.share.gpus_source);
  return fmt::format("{} has {} ({})", host.name, plural(host.slots.value_or(0), "slot"),
                     host.slots_source);
}

std::string say_limits(const JobSpec& spec, const Allocation& allocation) {
  constexpr std::size_t kMostHosts = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostHosts, allocation.hosts.size()); ++i)
    text += (i == 0 ? "" : ", ") + say_limit(spec, allocation.hosts[i]);
  if (allocation.hosts.size() > kMostHosts)
    text += fmt::format(" and {} more", plural(allocation.hosts.size() - kMostHosts, "host"));
  return text;
}

// Returns "; n1: GPU 2 … is lost" for each such GPU.
std::string lost_gpus(const Allocation& allocation) {
  std::string text;
  for (const auto& host : allocation.hosts) {
    if (!host.inventory) continue;
    for (const auto& note : host.inventory->notes)
      if (note.ends_with(kLostGpu)) text += "; " + host.name + ": " + note;
  }
  return text;
}

// Says that the ranks are too many, what limits the hosts, and what to type.
Error too_many(const JobSpec& spec, const Allocation& allocation, std::int64_t ranks) {
  const std::int64_t most = sum(limits_of(spec, allocation));
  const auto limits = say_limits(spec, allocation);
  const bool by_gpus =
      std::any_of(allocation.hosts.begin(), allocation.hosts.end(), [&](const Host& host) {
        return ranks_get_gpus(spec, host) && limit_of(spec, host) == count_gpus(host);
      });
  if (spec.oversubscribe)
    return usage_error(fmt::format("{}, but at most {} may be started (max_slots): {}; use -np {}",
                                   plural(ranks, "rank"), most, limits, most));
  if (!by_gpus)
    return usage_error(
        fmt::format("{} for {}: {}; use -np {}, more slots in -H, or --oversubscribe",
                    plural(ranks, "rank"), plural(most, "slot"), limits, most));
  return usage_error(
      fmt::format("{} for {}: {}; use -np {} for one rank per GPU, --oversubscribe to let "
                  "ranks share GPUs, or --gpu-bind none when the program uses none{}",
                  plural(ranks, "rank"), plural(most, "GPU"), limits, most, lost_gpus(allocation)));
}

Result<void> check_at_least_one(const JobSpec& spec) {
  if (spec.ranks && *spec.ranks < 1)
    return usage_error(fmt::format("-np {}: a job has 1 rank or more", *spec.ranks));
  if (spec.ranks_per_host && *spec.ranks_per_host < 1)
    return usage_error(fmt::format("--ranks-per-host {}: must be 1 or more", *spec.ranks_per_host));
  if (spec.cpus_per_rank && *spec.cpus_per_rank < 1)
    return usage_error(fmt::format("--cpus-per-rank {}: must be 1 or more", *spec.cpus_per_rank));
  return {};
}

Result<void> check_numbers(const JobSpec& spec, const Allocation& allocation) {
  if (allocation.hosts.empty()) return usage_error("there is no host to start ranks on");
  HVD_CHECK(check_at_least_one(spec));
  const auto hosts = static_cast<std::int64_t>(allocation.hosts.size());
  if (spec.ranks && *spec.ranks > hosts * kMaxRanksPerHost)
    return usage_error(fmt::format(
        "-np {}: hvdrun starts at most {} ranks on a host, and there {} {}; is "
        "the number right?",
        *spec.ranks, kMaxRanksPerHost, hosts == 1 ? "is" : "are", plural(hosts, "host")));
  if (spec.ranks_per_host && *spec.ranks_per_host > kMaxRanksPerHost)
    return usage_error(fmt::format("--ranks-per-host {}: hvdrun starts at most {} ranks on a host",
                                   *spec.ranks_per_host, kMaxRanksPerHost));
  if (spec.nodes && spec.ranks && *spec.ranks < hosts)
    return usage_error(
        fmt::format("--nnodes {}: {} cannot be on {}; use -np {} or more, or fewer hosts",
                    *spec.nodes, plural(*spec.ranks, "rank"), plural(hosts, "host"), hosts));
  for (const auto& host : allocation.hosts)
    if (!spec.ranks && !spec.ranks_per_host && host.slots.value_or(0) > kMaxRanksPerHost)
      return usage_error(
          fmt::format("{} has {} slots ({}), and hvdrun starts at most {} ranks on a host",
                      host.name, *host.slots, host.slots_source, kMaxRanksPerHost));
  return {};
}

Result<void> check_total(std::int64_t ranks) {
  if (ranks <= kMaxRanks) return {};
  return usage_error(
      fmt::format("these are {} ranks, and hvdrun starts at most {}; use -np N", ranks, kMaxRanks));
}

bool is_dealt(const JobSpec& spec) {
  return spec.map_by == MapBy::node || spec.nodes;
}

// Fills the hosts in order, up to `most` each. Returns how many ranks are left.
std::int64_t fill(const PerHost& most, std::int64_t left, PerHost& placed) {
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const auto more = std::clamp<std::int64_t>(most[i] - placed[i], 0, left);
    placed[i] += static_cast<int>(more);
    left -= more;
  }
  return left;
}

// Deals out one rank at a time to the hosts below `most`, in turn; computes whole rounds at once.
// Returns how many ranks are left.
std::int64_t deal(const PerHost& most, std::int64_t left, PerHost& placed) {
  while (left > 0) {
    std::int64_t open = 0;
    std::int64_t rounds = left;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i] >= most[i]) continue;
      ++open;
      rounds = std::min<std::int64_t>(rounds, most[i] - placed[i]);
    }
    if (open == 0) return left;
    rounds = std::min(rounds, left / open);
    const bool is_last_round = rounds == 0;
    for (std::size_t i = 0; i < placed.size() && left > 0; ++i) {
      if (placed[i] >= most[i]) continue;
      const auto more = is_last_round ? 1 : rounds;
      placed[i] += static_cast<int>(more);
      left -= more;
    }
  }
  return 0;
}

Result<PerHost> ranks_per_host(const JobSpec& spec, const Allocation& allocation) {
  const auto hosts = static_cast<std::int64_t>(allocation.hosts.size());
  const std::int64_t each = *spec.ranks_per_host;
  const std::int64_t ranks = spec.ranks ? *spec.ranks : each * hosts;
  if (ranks > each * hosts)
    return usage_error(fmt::format("-np {} does not fit: --ranks-per-host {} on {} makes {}", ranks,
                                   each, plural(hosts, "host"), each * hosts));
  HVD_CHECK(check_total(ranks));
  const PerHost most(allocation.hosts.size(), *spec.ranks_per_host);
  PerHost placed(most.size(), 0);
  is_dealt(spec) ? deal(most, ranks, placed) : fill(most, ranks, placed);
  for (std::size_t i = 0; i < placed.size(); ++i)
    if (placed[i] > limit_of(spec, allocation.hosts[i])) return too_many(spec, allocation, ranks);
  return placed;
}

Result<PerHost> ranks_by_slots(const JobSpec& spec, const Allocation& allocation) {
  std::int64_t slots = 0;
  for (const auto& host : allocation.hosts) slots += host.slots.value_or(0);
  const std::int64_t ranks = spec.ranks ? *spec.ranks : slots;
  HVD_CHECK(check_total(ranks));
  const PerHost limits = limits_of(spec, allocation);
  if (ranks > sum(limits)) return too_many(spec, allocation, ranks);
  PerHost most;
  for (std::size_t i = 0; i < limits.size(); ++i)
    most.push_back(std::min(limits[i], allocation.hosts[i].slots.value_or(1)));
  PerHost placed(most.size(), 0);
  const auto left = is_dealt(spec) ? deal(most, ranks, placed) : fill(most, ranks, placed);
  deal(limits, left, placed);
  return placed;
}

// Returns whether all ranks are placed before the first host whose slots are not known. Spares go
// first to hosts without ranks, so their slots must be known too.
bool is_decided(const JobSpec& spec, const Allocation& allocation) {
  const bool all_are_known = std::ranges::all_of(
      allocation.hosts, [](const Host& host) { return host.slots.has_value(); });
  const bool all_have_ranks = spec.ranks_per_host && !spec.ranks;
  if (spec.elastic.spares > 0 && !all_are_known && !all_have_ranks) return false;
  if (spec.ranks_per_host) return true;
  std::int64_t left = spec.ranks.value_or(kMaxRanks);
  if (is_dealt(spec) && left <= static_cast<std::int64_t>(allocation.hosts.size())) return true;
  for (const auto& host : allocation.hosts) {
    if (!is_dealt(spec) && left <= 0) return true;
    if (!host.slots) return false;
    left -= std::min(*host.slots, limit_of(spec, host));
  }
  return true;
}

// Deals out the spares to hosts without ranks, and then to the slots that the others have left: a
// host that is lost takes its spares with it.
PerHost count_spares(const JobSpec& spec, const Allocation& allocation, const PerHost& ranks) {
  PerHost room;
  PerHost room_without_ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Host& host = allocation.hosts[i];
    const int slots = std::min(host.slots.value_or(0), limit_of(spec, host));
    room.push_back(std::max(slots - ranks[i], 0));
    room_without_ranks.push_back(ranks[i] > 0 ? 0 : room.back());
  }
  PerHost spares(ranks.size(), 0);
  deal(room, deal(room_without_ranks, spec.elastic.spares, spares), spares);
  return spares;
}

}  // namespace

int count_gpus(const Host& host) {
  return host.inventory ? static_cast<int>(host.inventory->gpus.size())
                        : host.share.gpus.value_or(0);
}

bool ranks_get_gpus(const JobSpec& spec, const Host& host) {
  return spec.gpu_bind != GpuBind::none && count_gpus(host) > 0;
}

Result<RankCounts> count_ranks(const JobSpec& spec, const Allocation& allocation) {
  HVD_CHECK(check_numbers(spec, allocation));
  RankCounts result;
  if (!is_decided(spec, allocation)) {
    for (const auto& host : allocation.hosts)
      if (!host.slots) result.to_ask.push_back(host.name);
    return result;
  }
  HVD_TRY(result.by_host, spec.ranks_per_host ? ranks_per_host(spec, allocation)
                                              : ranks_by_slots(spec, allocation));
  result.spares = count_spares(spec, allocation, result.by_host);
  return result;
}

}  // namespace hvdrun
