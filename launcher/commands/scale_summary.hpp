// A study summed up: a figure for each size, how these compare, and where results are not the same.
//
// Pure functions. Speed-up is relative to the smallest size with a run that went well (the
// baseline): ideal at N ranks is N / baseline.
#pragma once

#include "commands/scale_measure.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun::scale {

// What speed-up is computed from: the first of these that all sizes have.
enum class Basis { throughput, epoch_seconds, wall_seconds };

struct MetricFigure {
  std::string name;
  Figure figure;
};

struct SizeSummary {
  int size = 1;
  int runs = 0;  // that went well; the figures are theirs
  int failed = 0;
  std::string trouble;  // of the first that failed
  std::optional<Figure> wall_seconds;
  std::optional<Figure> epoch_seconds;
  std::optional<Figure> throughput;
  std::optional<Figure> speedup;
  std::optional<Figure> efficiency;  // 1: ideal
  std::vector<MetricFigure> metrics;

  const Figure* metric(const std::string& name) const;  // null: it was not told
};

struct Summary {
  Basis basis = Basis::wall_seconds;
  int baseline = 0;                  // ranks; 0: no run went well
  std::vector<SizeSummary> sizes;    // as in the study
  std::vector<std::string> metrics;  // their names: loss, accuracy, then the others
  // A metric at some size differs from the baseline's by more than the spread over repeats and more
  // than 1 %, or is not a number.
  std::vector<std::string> warnings;
  // What the reader should know of the figures: failures, a single run a size, no counters.
  std::vector<std::string> notes;

  // The time of an epoch is known at all sizes; else that of whole runs is to be shown.
  bool knows_epochs() const;
  const std::optional<Figure>& seconds(const SizeSummary& size) const {
    return knows_epochs() ? size.epoch_seconds : size.wall_seconds;
  }
  bool knows_throughput() const;
};

Summary summarise(const Study& study);

}  // namespace hvdrun::scale
