// How far a training is, as its ranks report it through libhvd (hvd_progress): plain values, made
// by the agents, merged by job/, and shown on the status line and in the report.
#pragma once

#include <cstdint>
#include <optional>

namespace hvdrun {

// What is not known is empty.
struct Progress {
  std::optional<std::uint64_t> epoch;  // from 0
  std::optional<std::uint64_t> epochs;
  std::optional<std::uint64_t> step;  // steps done, over all epochs
  std::optional<std::uint64_t> steps;
  std::optional<double> samples_per_second;  // of all ranks together
  std::optional<double> loss;                // of the lowest rank that reports progress
  std::optional<double> waiting;             // mean share of the ranks' time, 0 to 1
  std::optional<double> seconds_left;

  bool operator==(const Progress&) const = default;
};

// What the ranks of a host, or of several, use of it.
struct UseNow {
  double cores = 0;      // processors' worth of time
  int gpus = 0;          // that say how busy they are
  double gpus_busy = 0;  // GPUs' worth of time: 1.5 of 2

  bool operator==(const UseNow&) const = default;
};

// The progress of one host's ranks. Epochs, steps and loss are those of `rank`.
struct HostProgress {
  int called_init = 0;      // ranks that have called hvd_init
  int in_init = 0;          // of these, the ranks that wait in it for others
  std::optional<int> rank;  // the lowest rank that reports progress; empty: none does
  int reporting = 0;        // ranks that report progress; `waiting` is their mean
  Progress progress;
  std::optional<UseNow> use = {};  // while none reports progress; empty: not known yet
};

}  // namespace hvdrun
