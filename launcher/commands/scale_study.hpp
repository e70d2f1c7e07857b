// A scaling study: a program's runs at several numbers of ranks. Plain values. run_scale makes
// them, and scale_summary.hpp summarises them.
#pragma once

#include "model/report.hpp"

#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun::scale {

// What the runs have in different numbers.
enum class Unit {
  ranks,
  devices,  // GPUs, all driven by one rank
};

struct Run {
  int size = 1;    // number of ranks or devices
  int repeat = 1;  // from 1
  int exit_code = 0;
  std::string failure;  // why its figures are not used: "exit code 3"; empty: it succeeded
  double wall_seconds = 0;
  int epochs = 0;                       // that the next two figures are from
  std::optional<double> epoch_seconds;  // the median over its epochs
  std::optional<double> throughput;  // samples per second of all ranks, the median over its epochs
  std::vector<MetricValue> metrics;  // at its end
  std::vector<HostHardware> hosts;   // that it ran on
};

struct Study {
  std::string command;   // "hvdrun scale …", as it was typed
  std::time_t date = 0;  // of its start
  std::string version;   // of hvdrun
  Unit unit = Unit::ranks;
  std::vector<int> sizes;  // ascending, each once
  int repeats = 1;
  int epochs_dropped = 1;  // the first ones of each run, which differ from the others
  std::vector<Run> runs;   // in the order in which they were made
  bool interrupted = false;
};

}  // namespace hvdrun::scale
