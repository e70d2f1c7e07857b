// What is known about each rank while the job runs; it becomes the ranks of the report. A plain
// value for the loop thread.
#pragma once

#include "base/result.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace hvdrun {

class RankTable {
 public:
  using Clock = std::chrono::steady_clock;
  RankTable(const Placement& placement, Clock::time_point begun);

  bool has(int rank) const;
  std::size_t host_index(int rank) const;  // of a rank that exists
  void started(int rank, int pid);
  void aborted(const AbortedMessage& message);

  // Takes a rank's end. Error: an agent reports a rank that does not run.
  Result<const RankReport*> exited(const ExitedMessage& message, Clock::time_point now);

  std::vector<int> running() const;  // including those that are not started yet
  bool all_ended() const { return end_order_.size() == ranks_.size(); }
  bool all_ended_on(std::size_t host_index) const;
  std::size_t ended() const { return end_order_.size(); }
  // The order in which their ends were reported; indices into ranks().
  const std::vector<std::size_t>& end_order() const { return end_order_; }

  const std::vector<RankReport>& ranks() const { return ranks_; }  // by rank
  std::vector<RankReport>& ranks() { return ranks_; }

 private:
  std::vector<RankReport> ranks_;
  std::vector<std::size_t> host_indices_;  // by rank
  std::vector<std::size_t> end_order_;
  Clock::time_point begun_;
};

}  // namespace hvdrun
