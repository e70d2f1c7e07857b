// Computes how fast the training of this agent's ranks is, from looks at their status pages.
//
// The agent owns it, on its loop thread. It cannot fail: a rank can write anything into its page,
// and then gets wrong rates.
#pragma once

#include "agent/status_pages.hpp"
#include "model/progress.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace hvdrun {

class ProgressWatch {
 public:
  // Takes one look at all ranks that are alive, in any order. Rates are those of the last ten
  // seconds, or between a rank's last two reports if these are farther apart. The rates of a rank
  // that has become silent fall.
  HostProgress look(const std::vector<RankProgress>& ranks, std::uint64_t now_ns);

 private:
  // What a rank had reported at a look. Only looks that found a new report are kept.
  struct Report {
    RankProgress progress;
    std::uint64_t looked_ns = 0;
  };
  struct Rates {
    std::optional<double> steps_per_second;
    std::optional<double> samples_per_second;
    std::optional<double> waiting;
  };
  using History = std::deque<Report>;

  static void add(const RankProgress& now, std::uint64_t now_ns, History& history);
  static Rates rates_of(const History& history, std::uint64_t now_ns);

  std::map<int, History> histories_;  // by rank
};

}  // namespace hvdrun
