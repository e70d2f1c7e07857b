// How fast a job is and who holds up whom, from looks at it one after another. Pure values; they
// cannot fail.
#pragma once

#include "model/job_now.hpp"
#include "model/progress.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// A rank between two looks. What is not known is empty.
struct RankRates {
  std::optional<double> samples_per_second;
  std::optional<double> collective_share;  // of its time, 0 to 1
  std::optional<double> waiting_share;     // of its time, for other ranks
  std::optional<double> cpu_percent;       // 100: one processor
  bool holds_up = false;                   // the others wait for it
};

class TopRates {
 public:
  // Takes a look that is later than those before.
  void add(JobNow now);

  const JobNow& now() const { return looks_.back(); }             // there must have been one
  const std::vector<RankRates>& ranks() const { return rates_; }  // as JobNow::ranks

  // Returns the progress of all ranks together, as the status line has it.
  Progress progress() const;

  // Returns lines about who holds up whom: "rank 3 on n2 holds up ranks 0-2: …". Empty if no rank
  // does.
  const std::vector<std::string>& hold_ups() const { return hold_ups_; }

 private:
  // Returns the latest look that was at least so many seconds before the last, or the first one.
  const JobNow& before(double seconds) const;
  void find_rates();
  void find_hold_ups();

  std::deque<JobNow> looks_;
  std::vector<RankRates> rates_;
  std::vector<std::string> hold_ups_;
};

}  // namespace hvdrun
