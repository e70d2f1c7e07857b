#include "report/host_table.hpp"

#include "common/text.hpp"
#include "report/host_use.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr double kLeastSeconds = 1;
constexpr std::size_t kMostHosts = 16;

std::string percent(double of_hundred) {
  return fmt::format("{:.0f} %", of_hundred);
}

std::string share(double part, double whole) {
  return whole > 0 ? percent(100 * part / whole) : "-";
}

// The columns that are there besides the first six.
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
  if (host.is_known)
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

// CPU and memory are in the report's summary already.
std::vector<std::string> line_of_one_host(const HostUse& host) {
  // The figures of a shorter job mean nothing.
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
