#include "commands/scale_summary.hpp"

#include "commands/scale_numbers.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hvdrun::scale {
namespace {

// Relative. Smaller differences come from the order of sums.
constexpr double kTolerance = 0.01;

std::vector<const Run*> good_runs(const Study& study, int size) {
  std::vector<const Run*> runs;
  for (const auto& run : study.runs)
    if (run.size == size && run.failure.empty()) runs.push_back(&run);
  return runs;
}

template <class Value>
std::optional<Figure> figure_of_runs(const std::vector<const Run*>& runs, const Value& value) {
  std::vector<double> values;
  for (const Run* run : runs)
    if (const std::optional<double> one = value(*run)) values.push_back(*one);
  return figure_of(values);
}

std::optional<double> metric_of(const Run& run, const std::string& name) {
  for (const auto& metric : run.metrics)
    if (metric.name == name) return metric.value;
  return std::nullopt;
}

std::vector<std::string> metric_names(const Study& study) {
  std::vector<std::string> names;
  for (const auto& run : study.runs)
    for (const auto& metric : run.metrics)
      if (std::find(names.begin(), names.end(), metric.name) == names.end())
        names.push_back(metric.name);
  const auto importance = [](const std::string& name) {
    return name == "loss" ? 0 : name == "accuracy" ? 1 : 2;
  };
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return importance(a) < importance(b); });
  return names;
}

SizeSummary summarise_size(const Study& study, int size, const std::vector<std::string>& metrics) {
  SizeSummary summary;
  summary.size = size;
  const auto runs = good_runs(study, size);
  summary.runs = static_cast<int>(runs.size());
  for (const auto& run : study.runs) {
    if (run.size != size || run.failure.empty()) continue;
    if (summary.failed++ == 0) summary.failure = run.failure;
  }
  summary.wall_seconds =
      figure_of_runs(runs, [](const Run& run) { return std::optional(run.wall_seconds); });
  summary.epoch_seconds = figure_of_runs(runs, [](const Run& run) { return run.epoch_seconds; });
  summary.throughput = figure_of_runs(runs, [](const Run& run) { return run.throughput; });
  for (const auto& name : metrics)
    if (const auto figure =
            figure_of_runs(runs, [&](const Run& run) { return metric_of(run, name); }))
      summary.metrics.push_back({name, *figure});
  return summary;
}

// Returns whether all sizes with a run that succeeded have that figure.
bool all_have(const Summary& summary, std::optional<Figure> SizeSummary::*figure) {
  return std::all_of(summary.sizes.begin(), summary.sizes.end(), [&](const SizeSummary& size) {
    return size.runs == 0 || ((size.*figure) && (size.*figure)->median > 0);
  });
}

Figure divided(const Figure& figure, double by) {
  return {figure.median / by, figure.least / by, figure.most / by, figure.count};
}

// Returns how many times as fast as `base` the figure is, where less is faster.
Figure inverse(const Figure& figure, double base) {
  return {base / figure.median, base / figure.most, base / figure.least, figure.count};
}

std::optional<Figure> speedup(const Summary& summary, const SizeSummary& size,
                              const SizeSummary& base) {
  if (size.runs == 0) return std::nullopt;
  switch (summary.basis) {
    case Basis::throughput:
      return divided(*size.throughput, base.throughput->median);
    case Basis::epoch_seconds:
      return inverse(*size.epoch_seconds, base.epoch_seconds->median);
    case Basis::wall_seconds:
      break;
  }
  if (!size.wall_seconds || size.wall_seconds->least <= 0) return std::nullopt;
  return inverse(*size.wall_seconds, base.wall_seconds->median);
}

void compare(Summary& summary) {
  const auto base = std::find_if(summary.sizes.begin(), summary.sizes.end(),
                                 [](const SizeSummary& size) { return size.runs > 0; });
  if (base == summary.sizes.end()) return;
  summary.baseline = base->size;
  if (all_have(summary, &SizeSummary::throughput))
    summary.basis = Basis::throughput;
  else if (all_have(summary, &SizeSummary::epoch_seconds))
    summary.basis = Basis::epoch_seconds;
  for (auto& size : summary.sizes) {
    size.speedup = speedup(summary, size, *base);
    if (size.speedup)
      size.efficiency =
          divided(*size.speedup, static_cast<double>(size.size) / static_cast<double>(base->size));
  }
}

std::string how_different(double value, double base) {
  return base == 0 ? "" : fmt::format(" by {:.3g} %", 100 * std::abs((value - base) / base));
}

void warn_of(const std::string& name, const SizeSummary& base, Summary& summary) {
  const Figure* const wanted = base.metric(name);
  for (const auto& size : summary.sizes) {
    const Figure* const figure = size.metric(name);
    if (figure == nullptr) continue;
    if (!std::isfinite(figure->median)) {
      summary.warnings.push_back(fmt::format("{} at {} is not a number: the training has diverged",
                                             name, size_text(summary.unit, size.size)));
      continue;
    }
    if (&size == &base || wanted == nullptr || !std::isfinite(wanted->median)) continue;
    const double difference = std::abs(figure->median - wanted->median);
    const double spread = std::max(figure->spread(), wanted->spread());
    if (difference <= std::max(spread, kTolerance * std::abs(wanted->median))) continue;
    const bool once = figure->count < 2 && wanted->count < 2;
    summary.warnings.push_back(fmt::format(
        "{} at {} ({}) differs from that at {} ({}){}{}", name, size_text(summary.unit, size.size),
        significant(figure->median), size_text(summary.unit, base.size),
        significant(wanted->median), how_different(figure->median, wanted->median),
        once ? "; with one run each it is not known how far they spread"
             : ", more than over repeats"));
  }
}

void add_notes(const Study& study, Summary& summary) {
  auto& notes = summary.notes;
  if (study.interrupted)
    notes.push_back("the study was interrupted; these are the figures until then");
  for (const auto& size : summary.sizes)
    if (size.failed > 0 && size.runs > 0)
      notes.push_back(fmt::format("{} at {} failed ({}) and {} left out",
                                  plural(size.failed, "run"), size_text(summary.unit, size.size),
                                  size.failure, size.failed == 1 ? "is" : "are"));
  if (summary.baseline == 0) return;
  if (summary.basis == Basis::wall_seconds) {
    notes.push_back(
        "only the time of whole runs is known, start and end included; for epochs and samples a "
        "second the program calls hvd_set_epoch and hvd_add_samples, or prints them: see --metric "
        "and --epoch-time");
  } else {
    int fewest = 0;
    for (const auto& run : study.runs)
      if (run.failure.empty() && run.epochs > 0 && (fewest == 0 || run.epochs < fewest))
        fewest = run.epochs;
    if (fewest == 1)
      notes.push_back(
          "some runs have figures from only one epoch; more epochs give better figures");
  }
  if (study.repeats == 1)
    notes.push_back("one run a size, so it is not known how far the figures spread; see --repeat");
  if (summary.baseline > 1)
    notes.push_back(
        fmt::format("speed-up is relative to {}", size_text(summary.unit, summary.baseline)));
}

}  // namespace

const Figure* SizeSummary::metric(const std::string& name) const {
  for (const auto& metric : metrics)
    if (metric.name == name) return &metric.figure;
  return nullptr;
}

bool Summary::knows_epochs() const {
  return baseline > 0 && all_have(*this, &SizeSummary::epoch_seconds);
}

bool Summary::knows_throughput() const {
  return baseline > 0 && all_have(*this, &SizeSummary::throughput);
}

std::vector<HostHardware> hosts_of(const Study& study) {
  std::vector<HostHardware> hosts;
  for (const auto& run : study.runs)
    for (const auto& host : run.hosts)
      if (std::none_of(hosts.begin(), hosts.end(),
                       [&](const HostHardware& known) { return known.host == host.host; }))
        hosts.push_back(host);
  return hosts;
}

Summary summarise(const Study& study) {
  Summary summary;
  summary.unit = study.unit;
  summary.metrics = metric_names(study);
  for (const int size : study.sizes)
    summary.sizes.push_back(summarise_size(study, size, summary.metrics));
  compare(summary);
  for (const auto& size : summary.sizes) {
    if (size.size != summary.baseline) continue;
    for (const auto& name : summary.metrics) warn_of(name, size, summary);
  }
  add_notes(study, summary);
  return summary;
}

}  // namespace hvdrun::scale
