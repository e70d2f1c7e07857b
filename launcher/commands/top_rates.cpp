#include "commands/top_rates.hpp"

#include "common/text.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Seconds. Samples come in steps, which may take long.
constexpr double kSamplesWindow = 10;
constexpr double kSharesWindow = 3;
constexpr double kLongestHistory = 12;
// A rank is slow if the others wait for at least this part of their time, and so many times what
// it waits.
constexpr double kLeastShare = 0.1;
constexpr double kTimesMore = 4;

const HostNow& host_of(const JobNow& look, const RankNow& rank) {
  static const HostNow none;
  const auto index = static_cast<std::size_t>(std::max(rank.host, 0));
  return index < look.hosts.size() ? look.hosts[index] : none;
}

std::string name_of(const JobNow& look, const RankNow& rank) {
  return fmt::format("rank {} on {}", rank.rank, host_of(look, rank).host);
}

bool lives(const RankNow& rank) {
  return rank.pid != 0 && rank.end.empty() && rank.state != "starting" && rank.state != "unknown" &&
         rank.state != "lost";
}

std::optional<double> share(double from, double to, double seconds) {
  if (seconds <= 0) return std::nullopt;
  return std::clamp((to - from) / seconds, 0.0, 1.0);
}

// Returns the rank of that process in an earlier look; null: it was not there.
const RankNow* earlier(const JobNow& look, std::size_t index, const RankNow& rank) {
  if (index >= look.ranks.size()) return nullptr;
  const auto& before = look.ranks[index];
  return before.rank == rank.rank && before.pid == rank.pid && lives(before) ? &before : nullptr;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void TopRates::add(JobNow now) {
  if (!looks_.empty() && (looks_.back().about.restarts != now.about.restarts ||
                          looks_.back().ranks.size() != now.ranks.size()))
    looks_.clear();
  looks_.push_back(std::move(now));
  while (looks_.size() > 2 && looks_[1].seconds + kLongestHistory < looks_.back().seconds)
    looks_.pop_front();
  find_rates();
  find_hold_ups();
}

const JobNow& TopRates::before(double seconds) const {
  const auto& last = looks_.back();
  for (auto look = looks_.rbegin() + 1; look != looks_.rend(); ++look)
    if (look->seconds + seconds <= last.seconds) return *look;
  return looks_.front();
}

void TopRates::find_rates() {
  const auto& last = looks_.back();
  rates_.assign(last.ranks.size(), {});
  for (std::size_t i = 0; i < last.ranks.size(); ++i) {
    const auto& rank = last.ranks[i];
    if (!lives(rank)) continue;
    auto& rates = rates_[i];
    const double clock = host_of(last, rank).clock;
    const auto seconds_since = [&](const JobNow& look, const RankNow& then) {
      const double before = host_of(look, then).clock;
      return before > 0 ? clock - before : 0;
    };
    const auto& short_ago = before(kSharesWindow);
    if (const auto* then = earlier(short_ago, i, rank)) {
      const double seconds = seconds_since(short_ago, *then);
      if (rank.collective_seconds > 0) {
        rates.collective_share = share(then->collective_seconds, rank.collective_seconds, seconds);
        rates.waiting_share = share(then->waiting_seconds, rank.waiting_seconds, seconds);
      }
      if (seconds > 0)
        rates.cpu_percent = std::max(100 * (rank.cpu_seconds - then->cpu_seconds) / seconds, 0.0);
    }
    if (rank.samples == 0) continue;
    const auto& long_ago = before(kSamplesWindow);
    const auto* then = earlier(long_ago, i, rank);
    const double seconds = then == nullptr
                               ? 0
                               : seconds_since(long_ago, *then) + then->since_progress.value_or(0) -
                                     rank.since_progress.value_or(0);
    if (then != nullptr && rank.samples > then->samples && seconds > 0)
      rates.samples_per_second = static_cast<double>(rank.samples - then->samples) / seconds;
    else if (rank.since_progress.value_or(0) > kSamplesWindow)
      rates.samples_per_second = 0;
    else if (rank.samples_per_second > 0)
      rates.samples_per_second = rank.samples_per_second;
  }
}

// A rank that others wait for in a collective now is the cause. Otherwise the slow ones are: those
// that hardly wait while the others do. At most half of the ranks are slow.
void TopRates::find_hold_ups() {
  hold_ups_.clear();
  const auto& last = looks_.back();
  for (const auto& wait : last.waits) {
    for (const int rank : wait.missing)
      if (rank >= 0 && static_cast<std::size_t>(rank) < rates_.size())
        rates_[static_cast<std::size_t>(rank)].holds_up = true;
    if (wait.missing.empty()) continue;
    const auto first = static_cast<std::size_t>(wait.missing.front());
    const auto who = wait.missing.size() == 1 && first < last.ranks.size()
                         ? name_of(last, last.ranks[first])
                         : describe_ranks(wait.missing);
    hold_ups_.push_back(
        fmt::format("{} hold{} up {}, which wait{} in {} for {:.0f} s", who,
                    wait.missing.size() == 1 ? "s" : "", describe_ranks(wait.waiting),
                    wait.waiting.size() == 1 ? "s" : "", wait.collective, wait.seconds));
  }
  if (!last.waits.empty()) return;
  std::vector<std::size_t> known;
  for (std::size_t i = 0; i < rates_.size(); ++i)
    if (rates_[i].waiting_share) known.push_back(i);
  if (known.size() < 2) return;
  std::vector<double> shares;
  for (const auto i : known) shares.push_back(*rates_[i].waiting_share);
  const double usual = median(shares);
  std::vector<int> slow;
  for (const auto i : known)
    if (usual >= kLeastShare && *rates_[i].waiting_share * kTimesMore <= usual)
      slow.push_back(static_cast<int>(i));
  if (slow.empty() || slow.size() * 2 > known.size()) return;
  for (const int i : slow) rates_[static_cast<std::size_t>(i)].holds_up = true;
  const auto& first = last.ranks[static_cast<std::size_t>(slow.front())];
  hold_ups_.push_back(fmt::format("{} {} slow: the others wait {:.0f} % of their time",
                                  slow.size() == 1 ? name_of(last, first) : describe_ranks(slow),
                                  slow.size() == 1 ? "is" : "are", 100 * usual));
}

Progress TopRates::progress() const {
  Progress progress;
  double waiting = 0;
  int waits = 0;
  double samples_per_second = 0;
  const RankNow* first = nullptr;
  const auto& ranks = looks_.back().ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    samples_per_second += rates_[i].samples_per_second.value_or(0);
    if (rates_[i].waiting_share) {
      waiting += *rates_[i].waiting_share;
      ++waits;
    }
    if (first == nullptr && (ranks[i].step > 0 || ranks[i].samples > 0 || ranks[i].epoch))
      first = &ranks[i];
  }
  if (samples_per_second > 0) progress.samples_per_second = samples_per_second;
  if (waits > 0) progress.waiting = waiting / waits;
  if (first == nullptr) return progress;
  progress.epoch = first->epoch;
  if (first->epochs > 0) progress.epochs = first->epochs;
  if (first->step > 0 || first->steps > 0) progress.step = first->step;
  if (first->steps >= first->step && first->steps > 0) progress.steps = first->steps;
  progress.loss = first->loss;
  return progress;
}

}  // namespace hvdrun
