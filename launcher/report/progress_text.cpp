#include "report/progress_text.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns "1,204".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

// Returns "7,346"; a small rate with three digits.
std::string rate_text(double rate) {
  if (rate < 99.95) return fmt::format("{:.3g}", rate);
  return rate < 1e15 ? grouped(static_cast<std::uint64_t>(std::llround(rate)))
                     : fmt::format("{:.3g}", rate);
}

// Returns "0:14", "1:02:03" or "4 d 3 h".
std::string clock_text(double seconds) {
  constexpr double kMost = 1e9;
  const auto all = std::llround(std::clamp(seconds, 0.0, kMost));
  const auto hours = all / 3600;
  if (hours >= 48) return fmt::format("{} d {} h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, all % 3600 / 60, all % 60);
  return fmt::format("{}:{:02}", all / 60, all % 60);
}

std::string part_of(std::uint64_t part, const std::optional<std::uint64_t>& all) {
  return grouped(part) + (all ? "/" + grouped(*all) : "");
}

Progress progress_of(const RankCounters& counters) {
  Progress progress;
  progress.epoch = counters.epoch;
  if (counters.epochs_in_all > 0) progress.epochs = counters.epochs_in_all;
  if (counters.steps > 0 || counters.steps_in_all > 0) progress.step = counters.steps;
  if (counters.steps_in_all > 0 && counters.steps_in_all >= counters.steps)
    progress.steps = counters.steps_in_all;
  for (const auto& metric : counters.metrics)
    if (metric.name == "loss") progress.loss = metric.value;
  return progress;
}

// Returns the last epoch that a rank trained in. A program may begin another one, and end before it
// does anything in that: it stops early, or sets the number of epochs after the last one. But who
// succeeds in the last epoch, or has done all steps, has trained in it.
std::optional<std::uint64_t> last_epoch(const RankReport& rank) {
  const RankCounters& counters = rank.counters;
  const bool succeeded = rank.exited && rank.exit_code == 0;
  if (!counters.epoch || !succeeded || counters.epochs.empty()) return counters.epoch;
  const bool is_last = counters.epochs_in_all > 0 && *counters.epoch + 1 >= counters.epochs_in_all;
  const bool all_steps = counters.steps_in_all > 0 && counters.steps >= counters.steps_in_all;
  if (is_last || all_steps) return counters.epoch;
  return std::min(*counters.epoch, counters.epochs.back().epoch);
}

}  // namespace

bool reports_progress(const RankCounters& counters) {
  return counters.epoch || counters.steps > 0 || counters.steps_in_all > 0 || counters.samples > 0;
}

std::vector<std::string> progress_fields(const Progress& progress) {
  std::vector<std::string> fields;
  if (progress.epoch) {
    // After the last epoch, programs set the number of epochs.
    const auto number = *progress.epoch + 1;
    fields.push_back(
        "epoch " +
        part_of(progress.epochs ? std::min(number, *progress.epochs) : number, progress.epochs));
  }
  if (progress.step) fields.push_back("step " + part_of(*progress.step, progress.steps));
  if (progress.samples_per_second)
    fields.push_back(rate_text(*progress.samples_per_second) + " samples/s");
  if (progress.loss) fields.push_back(fmt::format("loss {:.3g}", *progress.loss));
  if (progress.waiting) fields.push_back(fmt::format("{:.0f} % waiting", 100 * *progress.waiting));
  if (progress.seconds_left) fields.push_back(clock_text(*progress.seconds_left) + " left");
  return fields;
}

std::vector<std::string> use_fields(const UseNow& use, double seconds) {
  std::vector fields{clock_text(seconds) + " elapsed", fmt::format("{:.1f} cores", use.cores)};
  if (use.gpus > 0)
    fields.push_back(
        fmt::format("{} {:.0f} % busy", plural(use.gpus, "GPU"), 100 * use.gpus_busy / use.gpus));
  return fields;
}

std::optional<Progress> final_progress(const std::vector<RankReport>& ranks) {
  std::optional<Progress> progress;
  double samples_per_second = 0;
  double waiting = 0;
  double seconds = 0;
  for (const auto& rank : ranks) {
    if (!reports_progress(rank.counters) || rank.continued_without || rank.never_joined) continue;
    if (!progress) {
      progress = progress_of(rank.counters);
      progress->epoch = last_epoch(rank);
    }
    samples_per_second += rank.counters.samples_per_second;
    waiting += rank.counters.waiting_seconds;
    seconds += rank.seconds;
  }
  if (!progress) return std::nullopt;
  if (samples_per_second > 0) progress->samples_per_second = samples_per_second;
  if (ranks.size() > 1 && seconds > 0) progress->waiting = waiting / seconds;
  return progress;
}

}  // namespace hvdrun
