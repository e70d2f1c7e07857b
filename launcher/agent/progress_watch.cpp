#include "agent/progress_watch.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

constexpr std::uint64_t kWindowNs = 10'000'000'000;
// A rank is silent if it reports nothing for twice its usual time and this much more.
constexpr std::uint64_t kSilenceNs = 1'000'000'000;

double seconds_between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0;
}

std::optional<double> rate(std::uint64_t from, std::uint64_t to, double seconds) {
  if (to <= from || seconds <= 0) return std::nullopt;
  return static_cast<double>(to - from) / seconds;
}

Progress progress_of(const RankProgress& rank, std::optional<double> steps_per_second) {
  Progress progress;
  progress.epoch = rank.epoch;
  if (rank.epochs > 0) progress.epochs = rank.epochs;
  if (rank.step > 0 || rank.steps > 0) progress.step = rank.step;
  if (rank.steps >= rank.step && rank.steps > 0) progress.steps = rank.steps;
  progress.loss = rank.loss;
  if (progress.steps && steps_per_second)
    progress.seconds_left = static_cast<double>(rank.steps - rank.step) / *steps_per_second;
  return progress;
}

}  // namespace

void ProgressWatch::add(const RankProgress& now, std::uint64_t now_ns, History& history) {
  if (!history.empty()) {
    const RankProgress& last = history.back().progress;
    if (now.progress_ns == last.progress_ns) return;
    if (now.step < last.step || now.samples < last.samples) history.clear();
  }
  history.push_back({now, now_ns});
  while (history.size() > 2 && history[1].looked_ns + kWindowNs < now_ns) history.pop_front();
}

ProgressWatch::Rates ProgressWatch::rates_of(const History& history, std::uint64_t now_ns) {
  Rates rates;
  if (history.size() < 2) return rates;
  const auto& [first, first_looked_ns] = history.front();
  const auto& [last, last_looked_ns] = history.back();
  std::uint64_t usual_ns = 0;
  for (std::size_t i = 1; i < history.size(); ++i) {
    const std::uint64_t from = history[i - 1].progress.progress_ns;
    usual_ns = std::max(usual_ns, history[i].progress.progress_ns - from);
  }
  const bool is_silent = last.progress_ns + 2 * usual_ns + kSilenceNs < now_ns;
  const double seconds = seconds_between(first.progress_ns, is_silent ? now_ns : last.progress_ns);
  rates.steps_per_second = rate(first.step, last.step, seconds);
  rates.samples_per_second = rate(first.samples, last.samples, seconds);
  if (const double looked = seconds_between(first_looked_ns, last_looked_ns); looked > 0)
    rates.waiting = std::min(seconds_between(first.waiting_ns, last.waiting_ns) / looked, 1.0);
  return rates;
}

HostProgress ProgressWatch::look(const std::vector<RankProgress>& ranks, std::uint64_t now_ns) {
  HostProgress host;
  double waiting = 0;
  int waits_known = 0;
  double samples_per_second = 0;
  for (const RankProgress& rank : ranks) {
    host.called_init += rank.called_init;
    host.in_init += rank.in_init;
    if (!rank.reports()) continue;
    ++host.reporting;
    History& history = histories_[rank.rank];
    add(rank, now_ns, history);
    const Rates rates = rates_of(history, now_ns);
    samples_per_second += rates.samples_per_second.value_or(0);
    if (rates.waiting) {
      waiting += *rates.waiting;
      ++waits_known;
    }
    if (host.rank && *host.rank < rank.rank) continue;
    host.rank = rank.rank;
    host.progress = progress_of(rank, rates.steps_per_second);
  }
  if (samples_per_second > 0) host.progress.samples_per_second = samples_per_second;
  if (waits_known > 0) host.progress.waiting = waiting / waits_known;
  return host;
}

}  // namespace hvdrun
