#include "commands/top_screen.hpp"

#include "commands/jobs_table.hpp"
#include "common/text.hpp"
#include "control/running_jobs.hpp"
#include "report/progress_text.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::array<std::pair<TopSort, std::string_view>, 6> kSorts{{
    {TopSort::rank, "rank"},
    {TopSort::waiting, "waiting"},
    {TopSort::step, "step"},
    {TopSort::samples, "samples"},
    {TopSort::cpu, "cpu"},
    {TopSort::memory, "memory"},
}};

// Seconds. Shorter stays in a collective are usual, and not shown.
constexpr double kLongWait = 1;

constexpr std::string_view kKeys =
    "q quit  s sort  f fold hosts  up/down choose  l last lines  w why";

std::string number(const std::optional<double>& value, const char* unit = "") {
  if (!value) return "-";
  return *value < 9.95 && *value > 0 ? fmt::format("{:.1f}{}", *value, unit)
                                     : fmt::format("{:.0f}{}", *value, unit);
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}", 100 * *share) : "-";
}

std::string gpu_memory(const HostGpuNow& gpu) {
  return gpu.memory_bytes ? format_bytes(*gpu.memory_bytes) : "-";
}

const HostGpuNow* gpu_of(const JobNow& now, const RankNow& rank) {
  const auto host = static_cast<std::size_t>(std::max(rank.host, 0));
  if (!rank.gpu || *rank.gpu < 0 || host >= now.hosts.size()) return nullptr;
  const auto& gpus = now.hosts[host].gpus;
  const auto index = static_cast<std::size_t>(*rank.gpu);
  return index < gpus.size() ? &gpus[index] : nullptr;
}

bool has_gpus(const JobNow& now) {
  return std::ranges::any_of(now.hosts, [](const HostNow& host) { return !host.gpus.empty(); });
}

std::string host_name(const JobNow& now, const RankNow& rank) {
  const auto host = static_cast<std::size_t>(std::max(rank.host, 0));
  return host < now.hosts.size() ? escape(now.hosts[host].host) : "-";
}

std::string what_it_does(const RankNow& rank, bool holds_up) {
  std::string text = rank.end.empty() ? rank.state : rank.end;
  if (!rank.collective.empty() && rank.in_collective_seconds >= kLongWait)
    text +=
        fmt::format(", in {} for {:.1f} s", escape(rank.collective), rank.in_collective_seconds);
  return holds_up ? "<< holds up the others: " + text : text;
}

TableRow rank_row(const TopRates& all, std::size_t index, bool gpus) {
  const auto& now = all.now();
  const auto& rank = now.ranks[index];
  const auto& rates = all.ranks()[index];
  TableRow row{std::to_string(rank.rank),
               host_name(now, rank),
               rank.pid == 0 ? "-" : std::to_string(rank.pid),
               rank.step == 0 && rank.steps == 0 ? "-" : std::to_string(rank.step),
               number(rates.samples_per_second),
               percent(rates.collective_share),
               percent(rates.waiting_share),
               number(rates.cpu_percent),
               rank.memory_bytes == 0 ? "-" : format_bytes(rank.memory_bytes)};
  if (gpus) {
    const auto* gpu = gpu_of(now, rank);
    row.push_back(gpu == nullptr ? "-" : number(gpu->busy_percent));
    row.push_back(gpu == nullptr ? "-" : gpu_memory(*gpu));
    row.push_back(gpu == nullptr || !gpu->celsius ? "-" : std::to_string(*gpu->celsius));
  }
  row.push_back(what_it_does(rank, rates.holds_up));
  return row;
}

// Returns ", spare ranks 2-3".
std::string ranks_apart(std::string_view role, const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  return fmt::format(", {} {} {}", role, ranks.size() == 1 ? "rank" : "ranks", fold_ranks(ranks));
}

// The sums of a host's ranks that are in the job, and the means of their shares.
TableRow host_row(const TopRates& all, std::size_t index, bool gpus) {
  const auto& now = all.now();
  const auto& host = now.hosts[index];
  double samples = 0;
  double cpu = 0;
  double waiting = 0;
  double collective = 0;
  int shares = 0;
  std::uint64_t memory = 0;
  std::uint64_t step = 0;
  bool holds_up = false;
  std::size_t ended = 0;
  std::vector<int> members;
  std::vector<int> spares;
  std::vector<int> lost;
  for (std::size_t i = 0; i < now.ranks.size(); ++i) {
    const auto& rank = now.ranks[i];
    if (static_cast<std::size_t>(std::max(rank.host, 0)) != index) continue;
    const bool is_member = rank.role == "member";
    (is_member ? members : rank.role == "lost" ? lost : spares).push_back(rank.rank);
    if (!is_member) continue;
    const auto& rates = all.ranks()[i];
    samples += rates.samples_per_second.value_or(0);
    cpu += rates.cpu_percent.value_or(0);
    memory += rank.memory_bytes;
    step = std::max(step, rank.step);
    holds_up = holds_up || rates.holds_up;
    ended += rank.end.empty() ? 0 : 1;
    if (!rates.waiting_share) continue;
    waiting += *rates.waiting_share;
    collective += rates.collective_share.value_or(0);
    ++shares;
  }
  const auto mean = [&](double sum) {
    return shares > 0 ? std::optional(sum / shares) : std::nullopt;
  };
  TableRow row{members.empty() ? "-" : fold_ranks(members),
               escape(host.host),
               "-",
               step == 0 ? "-" : std::to_string(step),
               samples > 0 ? number(samples) : "-",
               percent(mean(collective)),
               percent(mean(waiting)),
               number(cpu),
               memory == 0 ? "-" : format_bytes(memory)};
  if (gpus) {
    double busy = 0;
    int known = 0;
    std::uint64_t bytes = 0;
    int celsius = 0;
    for (const auto& gpu : host.gpus) {
      if (gpu.busy_percent) busy += *gpu.busy_percent;
      known += gpu.busy_percent ? 1 : 0;
      bytes += gpu.memory_bytes.value_or(0);
      celsius = std::max(celsius, gpu.celsius.value_or(0));
    }
    row.push_back(known == 0 ? "-" : number(busy / known));
    row.push_back(bytes == 0 ? "-" : format_bytes(bytes));
    row.push_back(celsius == 0 ? "-" : std::to_string(celsius));
  }
  auto state = host.state;
  if (ended > 0) state += fmt::format(", {} ended", plural(ended, "rank"));
  state += ranks_apart("spare", spares) + ranks_apart("lost", lost);
  row.push_back(holds_up ? "<< holds up the others: " + state : state);
  return row;
}

double value_of(const TopRates& rates, std::size_t index, TopSort sort) {
  const auto& rank = rates.now().ranks[index];
  const auto& of = rates.ranks()[index];
  switch (sort) {
    case TopSort::rank:
      return 0;
    case TopSort::waiting:
      return of.waiting_share.value_or(2);
    case TopSort::step:
      return static_cast<double>(rank.step);
    case TopSort::samples:
      return of.samples_per_second.value_or(0);
    case TopSort::cpu:
      return -of.cpu_percent.value_or(0);
    case TopSort::memory:
      return -static_cast<double>(rank.memory_bytes);
  }
  return 0;
}

// Returns indices into JobNow::ranks, or into its hosts.
std::vector<std::size_t> order_of(const TopRates& rates, const TopView& view) {
  const auto& now = rates.now();
  std::vector<std::size_t> order(view.folds_hosts ? now.hosts.size() : now.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!view.folds_hosts && view.sort != TopSort::rank)
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return value_of(rates, i, view.sort); });
  return order;
}

// Returns the host's first rank that is in the job; without one its first of any kind, or -1.
int rank_of_host(const JobNow& now, std::size_t host) {
  int first = -1;
  for (const auto& rank : now.ranks) {
    if (rank.host != static_cast<int>(host)) continue;
    if (rank.role == "member") return rank.rank;
    if (first < 0) first = rank.rank;
  }
  return first;
}

// Leaves out columns, those that say least first, until the others and the beginning of the last
// one fit into `width`.
void leave_out_columns(std::vector<TableRow>& rows, std::size_t width) {
  constexpr std::string_view kSayLeast[] = {"GPUMEM", "CELSIUS", "SAMPLES/S", "PID",  "MEMORY",
                                            "COLL%",  "GPU%",    "HOST",      "STEP", "CPU%"};
  constexpr std::size_t kBetween = 2;
  constexpr std::size_t kLast = 9;  // "<< holds "
  const auto width_of = [&rows](std::size_t column) {
    std::size_t longest = 0;
    for (const auto& row : rows) longest = std::max(longest, row[column].size());
    return longest;
  };
  for (const auto name : kSayLeast) {
    const auto count = rows.front().size();
    auto needed = std::min(width_of(count - 1), kLast);
    for (std::size_t column = 0; column + 1 < count; ++column)
      needed += width_of(column) + kBetween;
    if (needed <= width) return;
    const auto found = std::ranges::find(rows.front(), name) - rows.front().begin();
    if (static_cast<std::size_t>(found) == count) continue;
    for (auto& row : rows) row.erase(row.begin() + found);
  }
}

}  // namespace

std::string_view sort_name(TopSort sort) {
  return std::ranges::find(kSorts, sort, [](const auto& each) { return each.first; })->second;
}

std::optional<TopSort> sort_of_name(std::string_view name) {
  for (const auto& [sort, known] : kSorts)
    if (known == name) return sort;
  return std::nullopt;
}

TopSort next_sort(TopSort sort) {
  const auto at = static_cast<std::size_t>(sort);
  return kSorts[(at + 1) % kSorts.size()].first;
}

std::vector<ScreenLine> top_summary(const TopRates& rates) {
  const auto& now = rates.now();
  const auto& about = now.about;
  std::string job =
      fmt::format("hvdrun {}: {}, {}", about.pid, about.phase, format_duration(now.seconds));
  if (about.ranks > 0) job += ", " + size_text(about);
  if (!about.scheduler_job.empty())
    job += fmt::format(", {} job {}", escape(about.scheduler), escape(about.scheduler_job));
  if (about.restarts > 0) job += ", " + plural(about.restarts, "restart");
  std::vector<ScreenLine> lines{{job + ": " + escape(command_text(about.command))}};
  const auto fields = progress_fields(rates.progress());
  if (!fields.empty()) lines.push_back({fmt::format("{}", fmt::join(fields, " · "))});
  for (const auto& text : rates.hold_ups())
    lines.push_back({escape(text), ScreenLine::Style::warning});
  for (const auto& host : now.hosts)
    if (host.state == "silent" || host.state == "lost")
      lines.push_back({fmt::format("{} {}", escape(host.host),
                                   host.state == "lost" ? "is lost" : "does not answer"),
                       ScreenLine::Style::warning});
  return lines;
}

std::vector<int> top_order(const TopRates& rates, const TopView& view) {
  std::vector<int> ranks;
  const auto& now = rates.now();
  for (const auto index : order_of(rates, view)) {
    if (!view.folds_hosts)
      ranks.push_back(now.ranks[index].rank);
    else
      ranks.push_back(rank_of_host(now, index));
  }
  return ranks;
}

std::vector<ScreenLine> top_table(const TopRates& rates, const TopView& view, std::size_t columns) {
  const bool gpus = has_gpus(rates.now());
  std::vector<TableRow> rows{{view.folds_hosts ? "RANKS" : "RANK", "HOST", "PID", "STEP",
                              "SAMPLES/S", "COLL%", "WAIT%", "CPU%", "MEMORY"}};
  if (gpus)
    for (const auto* title : {"GPU%", "GPUMEM", "CELSIUS"}) rows.front().emplace_back(title);
  rows.front().emplace_back("STATE");
  std::vector<bool> holds_up{false};
  for (const auto index : order_of(rates, view)) {
    rows.push_back(view.folds_hosts ? host_row(rates, index, gpus) : rank_row(rates, index, gpus));
    holds_up.push_back(rows.back().back().starts_with("<<"));
  }
  if (columns > 0) leave_out_columns(rows, columns);
  std::vector<ScreenLine> lines;
  for (auto& text : table_lines(rows)) {
    const bool is_title = lines.empty();
    const bool warns = holds_up[lines.size()];
    lines.push_back({std::move(text), is_title ? ScreenLine::Style::title
                                      : warns  ? ScreenLine::Style::warning
                                               : ScreenLine::Style::plain});
  }
  return lines;
}

std::vector<ScreenLine> top_screen(const TopRates& rates, TopView& view, std::size_t rows,
                                   std::size_t columns, const std::string& message) {
  auto lines = top_summary(rates);
  auto table = top_table(rates, view, columns);
  if (lines.size() > rows / 2) lines.resize(std::max<std::size_t>(rows / 2, 1));
  const auto order = top_order(rates, view);
  const auto selected =
      static_cast<std::size_t>(std::ranges::find(order, view.selected) - order.begin());
  const std::size_t above = lines.size() + 1;  // with the table's title
  const std::size_t room = rows > above + 1 ? rows - above - 1 : 1;
  const std::size_t entries = table.size() - 1;
  if (selected < entries) {
    table[selected + 1].style = ScreenLine::Style::selected;
    if (selected < view.top) view.top = selected;
    if (selected >= view.top + room) view.top = selected + 1 - room;
  }
  view.top = std::min(view.top, entries > room ? entries - room : 0);
  lines.push_back(std::move(table.front()));
  for (std::size_t i = 0; i < room && view.top + i < entries; ++i)
    lines.push_back(std::move(table[view.top + i + 1]));
  if (rows > 1 && lines.size() >= rows) lines.resize(rows - 1);
  lines.push_back(
      {message.empty() ? fmt::format("{}  (sorted by {})", kKeys, sort_name(view.sort)) : message,
       ScreenLine::Style::plain});
  for (auto& line : lines) line.text = cut_text(line.text, std::max<std::size_t>(columns, 1));
  return lines;
}

}  // namespace hvdrun
