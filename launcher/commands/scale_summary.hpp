// Summarises a study: a figure for each size, how these compare, and where results differ. Pure
// functions and values, for any thread; they cannot fail.
//
// Speed-up is relative to the smallest size with a run that succeeded, the baseline. The ideal at N
// ranks or devices is N / baseline.
#pragma once

#include "commands/scale_statistics.hpp"
#include "commands/scale_study.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun::scale {

// What speed-up is computed from: the first of these that all sizes with a good run have.
enum class Basis { throughput, epoch_seconds, wall_seconds };

struct MetricFigure {
  std::string name;
  Figure figure;
};

struct SizeSummary {
  int size = 1;
  int runs = 0;  // that succeeded; the figures are from these
  int failed = 0;
  std::string failure;  // of the first run that failed
  std::optional<Figure> wall_seconds;
  std::optional<Figure> epoch_seconds;
  std::optional<Figure> throughput;
  std::optional<Figure> speedup;
  std::optional<Figure> efficiency;  // 1: ideal
  std::vector<MetricFigure> metrics;

  // Returns nullptr if no run reported the metric.
  const Figure* metric(const std::string& name) const;
};

struct Summary {
  Unit unit = Unit::ranks;
  Basis basis = Basis::wall_seconds;
  int baseline = 0;                  // a size; 0: no run succeeded
  std::vector<SizeSummary> sizes;    // as in the study
  std::vector<std::string> metrics;  // their names: loss, accuracy, then the others
  // About metrics that are not a number at some size, or that differ from the baseline's by more
  // than the spread over repeats and by more than 1 %.
  std::vector<std::string> warnings;
  // What the reader should know about the figures: failures, a single run for each size, no
  // counters.
  std::vector<std::string> notes;

  // Returns whether the time of an epoch is known at all sizes. If not, that of whole runs is
  // shown.
  bool knows_epochs() const;
  const std::optional<Figure>& seconds(const SizeSummary& size) const {
    return knows_epochs() ? size.epoch_seconds : size.wall_seconds;
  }
  bool knows_throughput() const;
};

Summary summarise(const Study& study);

// Returns the hosts of all runs, in the order in which they were first used.
std::vector<HostHardware> hosts_of(const Study& study);

}  // namespace hvdrun::scale
