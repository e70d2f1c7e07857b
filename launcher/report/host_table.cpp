#include "report/host_table.hpp"

#include "common/text.hpp"
#include "model/rank_set.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

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
    host.has_told |= rank.exited;
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
  for (const auto& told : report.gpus)
    if (const auto at = known.find(told.host); at != known.end())
      hosts[at->second].gpus = told.gpus;
  return hosts;
}

namespace {

constexpr double kLeastSeconds = 1;
constexpr double kLeastShare = 0.1;
constexpr double kTimesAsLong = 4;

// The one in the middle, the upper of two.
template <class T, class Value>
double median_of(std::vector<const T*> items, const Value& value) {
  const auto middle = items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2);
  std::nth_element(items.begin(), middle, items.end(),
                   [&](const T* a, const T* b) { return value(*a) < value(*b); });
  return value(**middle);
}

double waiting_of(const RankReport& rank) {
  return rank.counters.waiting_seconds;
}

constexpr std::size_t kMostHosts = 16;

std::string percent(double of_hundred) {
  return fmt::format("{:.0f} %", of_hundred);
}

std::string share(double part, double whole) {
  return whole > 0 ? percent(100 * part / whole) : "-";
}

// Which columns have anything to say.
struct Columns {
  bool collectives = false;
  bool gpus = false;
};

Columns columns_for(const std::vector<HostUse>& hosts) {
  Columns columns;
  for (const auto& host : hosts) {
    columns.collectives |= host.joined > 0;
    columns.gpus |= host.gpu_peak_memory_bytes().has_value();
  }
  return columns;
}

TableRow title(const Columns& columns) {
  TableRow row{"  HOST", "RANKS", "TIME", "CPU", "CORES", "MEMORY"};
  if (columns.collectives) row.insert(row.end(), {"COLLECTIVES", "WAITING"});
  if (columns.gpus) row.insert(row.end(), {"GPU", "GPU MEMORY"});
  return row;
}

TableRow row_of(const HostUse& host, const Columns& columns) {
  TableRow row{"  " + host.host, fold_ranks(host.ranks), "-", "-", "-", "-"};
  if (host.has_told)
    row = {row[0],
           row[1],
           format_duration(host.seconds),
           format_duration(host.cpu_seconds),
           fmt::format("{:.1f}", host.cores()),
           format_bytes(host.peak_memory_bytes)};
  if (columns.collectives)
    for (const double seconds : {host.collective_seconds, host.waiting_seconds})
      row.push_back(host.joined > 0 ? share(seconds, host.seconds) : "-");
  if (columns.gpus) {
    const auto busy = host.gpu_busy_percent();
    const auto memory = host.gpu_peak_memory_bytes();
    row.push_back(busy ? percent(*busy) : "-");
    row.push_back(memory ? format_bytes(*memory) : "-");
  }
  return row;
}

// The summary above it has CPU and memory already.
std::vector<std::string> line_of_one_host(const HostUse& host) {
  // So short a job says nothing of how busy cores are, or who waits for whom.
  if (host.seconds < kLeastSeconds) return {};
  std::string line;
  const auto add = [&](const std::string& text) { line += (line.empty() ? "" : ", ") + text; };
  if (host.joined > 0) {
    add(fmt::format("{:.1f} cores busy", host.cores()));
    if (host.ranks.size() > 1)
      add(fmt::format("{} of the time in collectives, {} waiting for the slowest rank",
                      share(host.collective_seconds, host.seconds),
                      share(host.waiting_seconds, host.seconds)));
  }
  if (const auto memory = host.gpu_peak_memory_bytes()) {
    const auto busy = host.gpu_busy_percent();
    add(fmt::format("{}{}, peak memory of one {}", plural(host.gpus.size(), "GPU"),
                    busy ? " " + percent(*busy) + " busy" : "", format_bytes(*memory)));
  }
  if (line.empty()) return {};
  return {"  on " + host.host + ": " + line};
}

}  // namespace

std::optional<Stragglers> find_stragglers(const std::vector<RankReport>& ranks) {
  std::vector<const RankReport*> joined;
  for (const auto& rank : ranks)
    if (rank.counters.joined) joined.push_back(&rank);
  if (joined.size() < 2) return std::nullopt;
  // At most half of them are below it.
  const double typical = median_of(joined, waiting_of);
  Stragglers found;
  std::vector<const RankReport*> others;
  for (const RankReport* rank : joined) {
    if (kTimesAsLong * waiting_of(*rank) > typical) {
      others.push_back(rank);
      continue;
    }
    found.ranks.push_back(rank->placement.rank);
    found.waiting_seconds = std::max(found.waiting_seconds, waiting_of(*rank));
  }
  if (found.ranks.empty() || others.empty()) return std::nullopt;
  found.others_waiting_seconds = median_of(others, waiting_of);
  const double time = median_of(others, [](const RankReport& rank) { return rank.seconds; });
  if (time > 0) found.share = found.others_waiting_seconds / time;
  if (found.others_waiting_seconds < kLeastSeconds || found.share < kLeastShare)
    return std::nullopt;
  return found;
}

std::string describe_stragglers(const Stragglers& stragglers,
                                const std::vector<RankReport>& ranks) {
  const bool one = stragglers.ranks.size() == 1;
  const auto host_of = [&](int rank) { return ranks[static_cast<std::size_t>(rank)].host; };
  const auto& host = host_of(stragglers.ranks.front());
  const bool on_one_host = std::all_of(stragglers.ranks.begin(), stragglers.ranks.end(),
                                       [&](int rank) { return host_of(rank) == host; });
  return fmt::format(
      "rank{} {}{} {} slow: others have waited {} in collectives ({:.0f} % of their time), {} {}",
      one ? "" : "s", fold_ranks(stragglers.ranks), on_one_host ? " on " + host : "",
      one ? "is" : "are", format_duration(stragglers.others_waiting_seconds),
      100 * stragglers.share, one ? "it" : "they at most",
      format_duration(stragglers.waiting_seconds));
}

std::vector<std::string> host_table(const Report& report) {
  if (std::none_of(report.ranks.begin(), report.ranks.end(),
                   [](const auto& rank) { return rank.pid != 0; }))
    return {};
  auto hosts = use_of_hosts(report);
  if (hosts.size() == 1) return line_of_one_host(hosts.front());
  const std::size_t more = hosts.size() > kMostHosts ? hosts.size() - kMostHosts : 0;
  const Columns columns = columns_for(hosts);
  hosts.resize(hosts.size() - more);
  std::vector<TableRow> rows{title(columns)};
  for (const auto& host : hosts) rows.push_back(row_of(host, columns));
  auto lines = table_lines(rows);
  if (more > 0)
    lines.push_back(fmt::format("  and {} (--report FILE has all)", plural(more, "more host")));
  return lines;
}

}  // namespace hvdrun
