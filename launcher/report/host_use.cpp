#include "report/host_use.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace hvdrun {

namespace {

std::optional<double> mean_of(const std::vector<GpuUse>& gpus,
                              std::optional<double> GpuUse::*value) {
  double sum = 0;
  int known = 0;
  for (const auto& gpu : gpus) {
    if (!(gpu.*value)) continue;
    sum += *(gpu.*value);
    ++known;
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

template <class T>
std::optional<T> most_of(const std::vector<GpuUse>& gpus, std::optional<T> GpuUse::*value) {
  std::optional<T> most;
  for (const auto& gpu : gpus) most = std::max(most, gpu.*value);  // nullopt is less than a value
  return most;
}

}  // namespace

std::optional<double> HostUse::gpu_busy_percent() const {
  return mean_of(gpus, &GpuUse::busy_percent);
}

std::optional<std::uint64_t> HostUse::gpu_peak_memory_bytes() const {
  return most_of(gpus, &GpuUse::peak_memory_bytes);
}

std::optional<int> HostUse::gpu_peak_celsius() const {
  return most_of(gpus, &GpuUse::peak_celsius);
}

std::optional<double> HostUse::gpu_mean_watts() const {
  return mean_of(gpus, &GpuUse::mean_watts);
}

Throttling HostUse::gpu_throttling() const {
  Throttling sum;
  for (const auto& gpu : gpus) {
    if (!gpu.throttling) continue;
    sum.samples += gpu.throttling->samples;
    for (std::size_t i = 0; i < sum.seen.size(); ++i) sum.seen[i] += gpu.throttling->seen[i];
  }
  return sum;
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
    host.rank_gpu_memory_bytes = std::max(host.rank_gpu_memory_bytes, rank.peak_gpu_memory_bytes);
    if (!rank.counters.joined || rank.never_joined) continue;
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
