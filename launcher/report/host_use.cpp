#include "report/host_use.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace hvdrun {

std::optional<double> HostUse::gpu_busy_percent() const {
  double sum = 0;
  int known = 0;
  for (const auto& gpu : gpus) {
    if (gpu.looks == 0 || !gpu.busy_is_known) continue;
    sum += gpu.busy_percent;
    ++known;
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

std::optional<std::uint64_t> HostUse::gpu_peak_memory_bytes() const {
  std::optional<std::uint64_t> peak;
  for (const auto& gpu : gpus)
    if (gpu.looks > 0) peak = std::max(peak.value_or(0), gpu.peak_memory_bytes);
  return peak;
}

std::vector<HostUse> use_of_hosts(const Report& report) {
  std::vector<HostUse> hosts;
  std::map<std::string, std::size_t> known;
  for (const auto& rank : report.ranks) {
    const auto [at, is_new] = known.emplace(rank.host, hosts.size());
    if (is_new) hosts.emplace_back();
    auto& host = hosts[at->second];
    host.host = rank.host;
    host.ranks.push_back(rank.placement.rank);
    host.is_known |= rank.exited;
    host.seconds = std::max(host.seconds, rank.seconds);
    host.cpu_seconds += rank.user_seconds + rank.system_seconds;
    host.peak_memory_bytes = std::max(host.peak_memory_bytes, rank.peak_memory_bytes);
    if (!rank.counters.joined) continue;
    ++host.joined;
    host.collective_seconds += rank.counters.collective_seconds;
    host.waiting_seconds += rank.counters.waiting_seconds;
  }
  for (auto& host : hosts) {
    if (host.joined == 0) continue;
    host.collective_seconds /= host.joined;
    host.waiting_seconds /= host.joined;
  }
  for (const auto& host : report.gpus)
    if (const auto at = known.find(host.host); at != known.end())
      hosts[at->second].gpus = host.gpus;
  for (const auto& host : report.hardware)
    if (const auto at = known.find(host.host); at != known.end()) hosts[at->second].hardware = host;
  return hosts;
}

}  // namespace hvdrun
