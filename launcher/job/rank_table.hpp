// What is known about each rank while the job runs; it becomes the ranks of the report. A plain
// value for the loop thread. In a job that gets new ranks (--min-np) these are its members:
// processes, each with the number that it keeps.
//
// The first failure is found by time, and an agent's message can be late by any time on a busy
// machine. So the times of one host's failures come from its agent's clock. The difference to the
// launcher's clock is that of the message which arrived fastest.
#pragma once

#include "base/result.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

class RankTable {
 public:
  using Clock = std::chrono::steady_clock;
  RankTable(const Placement& placement, Clock::time_point begun);

  bool has(int rank) const;

  // Adds a process that is started later, in a job that gets new ranks (--min-np). Returns its
  // number, which is the next one.
  int add(std::size_t host_index, const std::string& host, RankPlacement placement);

  std::size_t host_index(int rank) const;  // of a rank that exists
  void started(int rank, int pid);
  void aborted(const AbortedMessage& message);

  // Takes what an agent has seen of its GPUs.
  void used_gpu_memory(const GpuRecord& record);

  // Takes a rank's end. Error: an agent reports a rank that does not run.
  Result<RankReport> exited(const ExitedMessage& message, Clock::time_point now);

  // Nothing will be heard of the ranks of this host any more: those that run are lost. They count
  // as ended, though their reports do not say how. Returns them.
  std::vector<int> lose_host(std::size_t host_index);

  std::vector<int> running() const;  // including those that are not started yet
  bool all_ended() const { return ended() == ranks_.size(); }
  bool all_ended_on(std::size_t host_index) const;
  std::size_t ended() const { return end_order_.size() + lost_.size(); }
  // The order in which their ends were reported; indices into ranks().
  const std::vector<std::size_t>& end_order() const { return end_order_; }

  const std::vector<RankReport>& ranks() const { return ranks_; }  // by rank
  std::vector<RankReport>& ranks() { return ranks_; }

 private:
  // How the clock of a host's agent differs from the launcher's.
  struct AgentClock {
    std::optional<double> difference;  // launcher's minus agent's, in seconds
    double measured_at = 0;            // on the launcher's clock
  };

  // Sets the difference from a message of this host, and RankReport::failed_after of its ranks.
  void set_clock(std::size_t host, double launcher_clock, double agent_clock);
  bool runs(std::size_t rank) const { return !ranks_[rank].exited && !lost_.contains(rank); }

  std::vector<RankReport> ranks_;
  std::vector<std::size_t> host_indices_;  // by rank
  std::vector<double> failed_at_;          // by rank, on its agent's clock
  std::vector<AgentClock> agent_clocks_;   // by host
  std::vector<std::size_t> end_order_;
  std::set<std::size_t> lost_;  // see lose_host()
  Clock::time_point begun_;
};

}  // namespace hvdrun
