#include "job/status_line.hpp"

#include "common/text.hpp"
#include "report/progress_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// A start that is shorter is not shown.
constexpr milliseconds kDelay{1000};
constexpr milliseconds kStartInterval{200};
// How often agents look at their ranks' progress.
constexpr milliseconds kLineInterval{250};
constexpr milliseconds kLogLook{1000};
constexpr milliseconds kLogInterval{60'000};
// Of a training that reports nothing, the line is drawn again because of its clock: each second in
// the first minute, and then ever more seldom.
constexpr milliseconds kClockInterval{1000};
constexpr milliseconds kLongestClockInterval{5000};
constexpr int kClockDivisor = 60;
// In the log such a training has a line in its first minute, and then one in so many.
constexpr int kUseMinutes = 10;

}  // namespace

std::vector<std::string> start_fields(const Agents& agents, const RankTable& table) {
  std::size_t hosts = 0;
  std::size_t reached = 0;
  std::size_t up = 0;
  for (const auto& agent : agents.every()) {
    if (agent.dismissed) continue;
    ++hosts;
    if (agent.life.has(AgentPhase::reached)) ++reached;
    if (agent.life.has(AgentPhase::greeted)) ++up;
  }
  const auto& ranks = table.ranks();
  const auto started =
      std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.pid != 0; });
  const auto ranks_text = ranks.empty()
                              ? plural(started, "rank")
                              : fmt::format("{} of {}", started, plural(ranks.size(), "rank"));
  return {fmt::format("starting: {} of {} reached", reached, plural(hosts, "host")),
          plural(up, "agent") + " up", ranks_text + " started"};
}

HostProgress sum_of_hosts(const std::map<std::size_t, HostProgress>& hosts) {
  HostProgress sum;
  double samples_per_second = 0;
  double waiting = 0;
  int waits_known = 0;
  for (const auto& [index, host] : hosts) {
    sum.called_init += host.called_init;
    sum.in_init += host.in_init;
    sum.reporting += host.reporting;
    samples_per_second += host.progress.samples_per_second.value_or(0);
    if (host.progress.waiting) {
      waiting += *host.progress.waiting * host.reporting;
      waits_known += host.reporting;
    }
    if (host.use) {
      auto& use = sum.use ? *sum.use : sum.use.emplace();
      use.cores += host.use->cores;
      use.gpus += host.use->gpus;
      use.gpus_busy += host.use->gpus_busy;
    }
    if (!host.rank || (sum.rank && *sum.rank < *host.rank)) continue;
    sum.rank = host.rank;
    sum.progress = host.progress;
  }
  sum.progress.samples_per_second.reset();
  if (samples_per_second > 0) sum.progress.samples_per_second = samples_per_second;
  sum.progress.waiting.reset();
  if (waits_known > 0) sum.progress.waiting = waiting / waits_known;
  return sum;
}

milliseconds progress_interval(Output::ProgressStyle style) {
  if (style == Output::ProgressStyle::none) return milliseconds(0);
  return style == Output::ProgressStyle::line ? kLineInterval : kLogLook;
}

StatusLine::StatusLine(const EventLoop& loop, const Agents& agents, const RankTable& table,
                       Output& output)
    : loop_(loop),
      agents_(agents),
      table_(table),
      output_(output),
      start_timer_(loop, [this] { show_start(); }),
      init_timer_(loop, [this] { show(); }),
      use_timer_(loop, [this] { show(); }),
      log_timer_(loop, [this] { print(); }) {}

void StatusLine::begin() {
  begun_ = loop_.now();
  if (output_.progress_style() == Output::ProgressStyle::line) start_timer_.start(kDelay);
  if (output_.progress_style() == Output::ProgressStyle::log) log_timer_.start(kLogInterval);
}

void StatusLine::show_start() {
  output_.status(start_fields(agents_, table_));
  start_timer_.start(kStartInterval);
}

void StatusLine::started() {
  start_timer_.cancel();
  output_.status({});
}

void StatusLine::take(std::size_t host_index, const ProgressMessage& message) {
  hosts_[host_index] = message.host;
  show();
}

void StatusLine::lose_host(std::size_t host_index) {
  if (hosts_.erase(host_index) > 0) show();
}

void StatusLine::show() {
  if (start_timer_.pending()) return;
  const HostProgress sum = sum_of_hosts(hosts_);
  if (sum.rank) return output_.status(progress_fields(sum.progress));
  if (sum.in_init > 0) return show_init(sum);
  if (!sum.use) return output_.status({});
  output_.status(use_fields_now(*sum.use));
  const auto age = std::chrono::duration_cast<milliseconds>(loop_.now() - begun_);
  use_timer_.start(std::clamp(age / kClockDivisor, kClockInterval, kLongestClockInterval));
}

std::vector<std::string> StatusLine::use_fields_now(const UseNow& use) const {
  return use_fields(use, std::chrono::duration<double>(loop_.now() - begun_).count());
}

void StatusLine::show_init(const HostProgress& sum) {
  const auto left = std::chrono::ceil<milliseconds>(begun_ + kDelay - loop_.now());
  if (left.count() > 0) return init_timer_.start(left);
  output_.status({fmt::format("starting: {} reached", plural(hosts_.size(), "host")),
                  fmt::format("{} of {} in hvd.init", sum.called_init,
                              plural(table_.ranks().size(), "rank"))});
}

void StatusLine::print() {
  log_timer_.start(kLogInterval);
  const HostProgress sum = sum_of_hosts(hosts_);
  const bool shows_use = minutes_++ % kUseMinutes == 0;
  std::vector<std::string> fields;
  if (sum.rank)
    fields = progress_fields(sum.progress);
  else if (sum.use && shows_use)
    fields = use_fields_now(*sum.use);
  if (!fields.empty()) output_.note(fmt::format("{}", fmt::join(fields, ", ")));
}

void StatusLine::end() {
  start_timer_.cancel();
  init_timer_.cancel();
  use_timer_.cancel();
  log_timer_.cancel();
  output_.status({});
}

}  // namespace hvdrun
