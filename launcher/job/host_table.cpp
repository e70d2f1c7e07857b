#include "job/host_table.hpp"

#include "base/counted.hpp"
#include "base/text_table.hpp"
#include "job/report_text.hpp"
#include "model/rank_set.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostHosts = 16;

struct HostUse {
  std::string host;
  std::vector<int> ranks;
  bool has_told = false;  // of the end of one of them at least
  double seconds = 0;
  double cpu_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
};

// In the order of their first ranks.
std::vector<HostUse> use_of_hosts(const std::vector<RankReport>& ranks) {
  std::vector<HostUse> hosts;
  std::map<std::string, std::size_t> known;
  for (const auto& rank : ranks) {
    const auto [at, is_new] = known.emplace(rank.host, hosts.size());
    if (is_new) hosts.push_back({rank.host, {}});
    auto& host = hosts[at->second];
    host.ranks.push_back(rank.placement.rank);
    host.has_told |= rank.exited;
    host.seconds = std::max(host.seconds, rank.seconds);
    host.cpu_seconds += rank.user_seconds + rank.system_seconds;
    host.peak_memory_bytes = std::max(host.peak_memory_bytes, rank.peak_memory_bytes);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> host_table(const Report& report) {
  if (std::none_of(report.ranks.begin(), report.ranks.end(),
                   [](const auto& rank) { return rank.pid != 0; }))
    return {};
  auto hosts = use_of_hosts(report.ranks);
  if (hosts.size() < 2) return {};
  const std::size_t more = hosts.size() > kMostHosts ? hosts.size() - kMostHosts : 0;
  hosts.resize(hosts.size() - more);
  std::vector<TableRow> rows{{"  HOST", "RANKS", "TIME", "CPU", "MEMORY"}};
  for (const auto& host : hosts) {
    TableRow row{"  " + host.host, fold_ranks(host.ranks), "-", "-", "-"};
    if (host.has_told)
      row = {row[0], row[1], format_duration(host.seconds), format_duration(host.cpu_seconds),
             format_bytes(host.peak_memory_bytes)};
    rows.push_back(std::move(row));
  }
  auto lines = table_lines(rows);
  if (more > 0)
    lines.push_back(fmt::format("  and {} (--report FILE has all)", counted(more, "more host")));
  return lines;
}

}  // namespace hvdrun
