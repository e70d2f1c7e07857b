// Decides for --quiet-timeout since when a job's ranks do nothing: they complete no collective,
// report no progress and use next to no processor. One rank that computes a little is enough,
// however many others wait for it. The noise of threads that libraries keep is not.
//
// A value for its owner's thread. Nothing fails.
#pragma once

#include "protocol/messages.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace hvdrun {

class QuietTime {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Begins anew: the ranks work at `now`.
  void begin(Time now, std::chrono::milliseconds timeout);
  // Takes what the ranks have used until `now`.
  void add(Time now, const std::vector<RankState>& states);
  Time since() const { return since_; }

 private:
  struct Use {
    double cpu_seconds = 0;
    std::uint64_t calls = 0;  // collectives that the rank has completed, steps and epochs
  };
  bool has_worked(const RankState& state) const;

  Time since_;
  double noise_ = 0;         // seconds of a processor that are no work
  std::map<int, Use> base_;  // of each rank, when one last worked
};

}  // namespace hvdrun
