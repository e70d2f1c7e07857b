#include "report/host_table.hpp"

#include "common/text.hpp"
#include "report/host_use.hpp"
#include "report/quantities.hpp"
#include "report/throttling.hpp"

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

std::string celsius(int degrees) {
  return fmt::format("{} °C", degrees);
}

std::string watts(double power) {
  return fmt::format("{:.0f} W", power);
}

std::string share(double part, double whole) {
  return whole > 0 ? percent(100 * part / whole) : "-";
}

// The columns that are there besides the first six.
struct Columns {
  bool collectives = false;
  bool gpus = false;
  bool rank_gpu_memory = false;
  bool temperature = false;
  bool power = false;
  bool throttling = false;
};

Columns columns_for(const std::vector<HostUse>& hosts) {
  Columns columns;
  for (const auto& host : hosts) {
    columns.collectives |= host.joined > 0;
    columns.gpus |= host.gpu_peak_memory_bytes() || host.gpu_busy_percent();
    columns.rank_gpu_memory |= host.rank_gpu_memory_bytes.has_value();
    columns.temperature |= host.gpu_peak_celsius().has_value();
    columns.power |= host.gpu_mean_watts().has_value();
    columns.throttling |= !describe_throttling(host.gpu_throttling()).empty();
  }
  return columns;
}

TableRow title(const Columns& columns) {
  TableRow row{"  HOST", "RANKS", "TIME", "CPU", "CORES", "MEMORY"};
  if (columns.collectives) row.insert(row.end(), {"COLLECTIVES", "WAITING"});
  if (columns.gpus) row.insert(row.end(), {"GPU", "GPU MEMORY"});
  if (columns.rank_gpu_memory) row.emplace_back("OF A RANK");
  if (columns.temperature) row.emplace_back("TEMP");
  if (columns.power) row.emplace_back("POWER");
  if (columns.throttling) row.emplace_back("THROTTLED");
  return row;
}

void add_gpu_cells(const HostUse& host, const Columns& columns, TableRow& row) {
  const auto add = [&row](bool has_column, const auto& value, const auto& format) {
    if (has_column) row.push_back(value ? format(*value) : "-");
  };
  add(columns.gpus, host.gpu_busy_percent(), percent);
  add(columns.gpus, host.gpu_peak_memory_bytes(), format_bytes);
  add(columns.rank_gpu_memory, host.rank_gpu_memory_bytes, format_bytes);
  add(columns.temperature, host.gpu_peak_celsius(), celsius);
  add(columns.power, host.gpu_mean_watts(), watts);
  if (!columns.throttling) return;
  const auto throttled = describe_throttling(host.gpu_throttling());
  row.push_back(throttled.empty() ? "-" : throttled);
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
  add_gpu_cells(host, columns, row);
  return row;
}

// Returns "4 GPUs 85 % busy, peak memory of one 31.0 GB (30.2 GB of a rank), up to 71 °C, 612 W
// each", without what is not known; "" if nothing is.
std::string describe_gpus(const HostUse& host) {
  std::string text;
  if (const auto busy = host.gpu_busy_percent()) text += " " + percent(*busy) + " busy";
  if (const auto memory = host.gpu_peak_memory_bytes())
    text += ", peak memory of one " + format_bytes(*memory);
  if (const auto& memory = host.rank_gpu_memory_bytes)
    text += fmt::format(" ({} of a rank)", format_bytes(*memory));
  if (const auto degrees = host.gpu_peak_celsius()) text += ", up to " + celsius(*degrees);
  if (const auto power = host.gpu_mean_watts())
    text += ", " + watts(*power) + (host.gpus.size() > 1 ? " each" : "");
  if (const auto throttled = describe_throttling(host.gpu_throttling()); !throttled.empty())
    text += ", throttled: " + throttled;
  return text.empty() ? "" : plural(host.gpus.size(), "GPU") + text;
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
  if (const auto gpus = describe_gpus(host); !gpus.empty()) add(gpus);
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
