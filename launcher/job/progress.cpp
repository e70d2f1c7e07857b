#include "job/progress.hpp"

#include "common/text.hpp"
#include "report/report_text.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

// `text` with `host` for each HOST that stands alone.
std::string with_host(std::string text, const std::string& host) {
  constexpr std::string_view kHost = "HOST";
  const auto is_part = [&text](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
                                text[at] == '_' || text[at] == '-');
  };
  for (auto at = text.find(kHost); at != std::string::npos; at = text.find(kHost, at)) {
    const bool is_word = (at == 0 || !is_part(at - 1)) && !is_part(at + kHost.size());
    if (is_word) text.replace(at, kHost.size(), host);
    at += is_word ? host.size() : kHost.size();
  }
  return text;
}

constexpr std::chrono::milliseconds kQuiet{1000};
constexpr std::chrono::milliseconds kAgain{200};

// proc(5), field "state".
std::string_view state_words(const std::string& state) {
  if (state == "R") return "running";
  if (state == "S" || state == "I") return "sleeping";
  if (state == "D") return "waiting for a device";
  if (state == "T" || state == "t") return "stopped";
  return "ended";
}

std::string what_it_does(const RankState& state, const std::vector<RankReport>& reports) {
  const auto& rank = reports[static_cast<std::size_t>(state.rank)];
  if (rank.exited) return describe_end(rank);
  std::string text(state_words(state.state));
  if (!state.collective.empty())
    text += fmt::format(", in {} for {:.1f} s", state.collective, state.collective_seconds);
  else if (!state.background.empty())
    text += fmt::format(", waits for {} for {:.1f} s", state.background, state.background_seconds);
  return text;
}

}  // namespace

std::vector<std::string> unreached_lines(const std::vector<UnreachableHost>& hosts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> troubles;  // why, hosts
  for (const auto& each : hosts) {
    auto at = std::find_if(troubles.begin(), troubles.end(),
                           [&](const auto& trouble) { return trouble.first == each.why; });
    if (at == troubles.end()) at = troubles.insert(at, {each.why, {}});
    at->second.push_back(each.host);
  }
  std::vector<std::string> lines;
  lines.reserve(troubles.size());
  for (const auto& [why, names] : troubles)
    lines.push_back(fold_hosts(names) + ": " +
                    with_host(why, *std::min_element(names.begin(), names.end())));
  return lines;
}

std::string unreached_reason(const std::vector<UnreachableHost>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& each : hosts) names.push_back(each.host);
  return "could not start on " + fold_hosts(names);
}

std::string start_progress_text(const Agents& agents, const RankTable& table) {
  std::size_t hosts = 0;
  std::size_t reached = 0;
  std::size_t up = 0;
  for (const auto& agent : agents.every()) {
    if (agent.dismissed) continue;
    ++hosts;
    if (agent.reached) ++reached;
    if (agent.greeted) ++up;
  }
  const auto& ranks = table.ranks();
  const auto started =
      std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.pid != 0; });
  return fmt::format("hvdrun: starting: {} of {} reached, {} up, {} started", reached,
                     plural(hosts, "host"), plural(up, "agent"),
                     ranks.empty()
                         ? plural(started, "rank")
                         : fmt::format("{} of {}", started, plural(ranks.size(), "rank")));
}

StartProgress::StartProgress(const EventLoop& loop, const Agents& agents, const RankTable& table,
                             Output& output)
    : agents_(agents), table_(table), output_(output), timer_(loop, [this] { show(); }) {}

void StartProgress::begin() {
  timer_.start(kQuiet);
}

void StartProgress::show() {
  output_.status(start_progress_text(agents_, table_));
  timer_.start(kAgain);
}

void StartProgress::end() {
  if (!timer_.pending()) return;
  timer_.cancel();
  output_.status({});
}

std::vector<std::string> StateTable::add(const StatesMessage& states,
                                         const std::vector<RankReport>& reports) {
  const auto ranks = answers_.add(states, reports.size());
  if (!ranks) return {};
  std::vector<std::string> lines{fmt::format("{:>5} {:<16} {:>8} {:>6} {:>9}  {}", "rank", "host",
                                             "pid", "epoch", "step", "state")};
  for (const auto& state : *ranks)
    lines.push_back(fmt::format("{:>5} {:<16} {:>8} {:>6} {:>9}  {}", state.rank,
                                reports[static_cast<std::size_t>(state.rank)].host, state.pid,
                                state.epoch, state.step, what_it_does(state, reports)));
  return lines;
}

void StateAnswers::expect(std::size_t agents) {
  missing_ = agents;
  ranks_.clear();
}

std::optional<std::vector<RankState>> StateAnswers::add(const StatesMessage& states,
                                                        std::size_t size) {
  for (const auto& state : states.ranks)
    if (state.rank >= 0 && static_cast<std::size_t>(state.rank) < size) ranks_.push_back(state);
  if (missing_ == 0 || --missing_ > 0) return {};
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankState& a, const RankState& b) { return a.rank < b.rank; });
  return std::exchange(ranks_, {});
}

}  // namespace hvdrun
