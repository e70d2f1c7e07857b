#include "job/rank_table.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

namespace hvdrun {

RankTable::RankTable(const Placement& placement, Clock::time_point begun)
    : ranks_(static_cast<std::size_t>(placement.size)),
      host_indices_(static_cast<std::size_t>(placement.size)),
      failed_at_(static_cast<std::size_t>(placement.size)),
      agent_clocks_(placement.hosts.size()),
      begun_(begun) {
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) {
    for (const auto& placed : placement.hosts[host].ranks) {
      const auto rank = static_cast<std::size_t>(placed.rank);
      ranks_[rank].placement = placed;
      ranks_[rank].host = placement.hosts[host].host;
      host_indices_[rank] = host;
    }
  }
}

int RankTable::add(std::size_t host_index, const std::string& host, RankPlacement placement) {
  RankReport report;
  report.placement = std::move(placement);
  report.placement.rank = static_cast<int>(ranks_.size());
  report.host = host;
  ranks_.push_back(std::move(report));
  host_indices_.push_back(host_index);
  failed_at_.push_back(0);
  return ranks_.back().placement.rank;
}

std::size_t RankTable::host_index(int rank) const {
  return host_indices_[static_cast<std::size_t>(rank)];
}

bool RankTable::has(int rank) const {
  return rank >= 0 && static_cast<std::size_t>(rank) < ranks_.size();
}

void RankTable::started(int rank, int pid) {
  if (has(rank)) ranks_[static_cast<std::size_t>(rank)].pid = pid;
}

void RankTable::aborted(const AbortedMessage& message) {
  if (!has(message.rank)) return;
  auto& rank = ranks_[static_cast<std::size_t>(message.rank)];
  if (!rank.abort_code) failed_at_[static_cast<std::size_t>(message.rank)] = message.agent_clock;
  rank.abort_code = message.code;
  rank.abort_message = message.text;
}

void RankTable::used_gpu_memory(const GpuRecord& record) {
  for (const auto& [rank, bytes] : record.rank_memory)
    if (has(rank)) ranks_[static_cast<std::size_t>(rank)].peak_gpu_memory_bytes = bytes;
}

Result<RankReport> RankTable::exited(const ExitedMessage& message, Clock::time_point now) {
  if (!has(message.rank) || !runs(static_cast<std::size_t>(message.rank)))
    return fail(
        fmt::format("an agent reports the end of rank {}, which does not run", message.rank));
  auto& rank = ranks_[static_cast<std::size_t>(message.rank)];
  rank.exited = true;
  if (WIFSIGNALED(message.wait_status)) {
    rank.signal = WTERMSIG(message.wait_status);
    rank.core_dumped = WCOREDUMP(message.wait_status);
  } else {
    rank.exit_code = WEXITSTATUS(message.wait_status);
  }
  rank.stopped_by_us = !message.before_stop;
  rank.killed_by_us = message.after_kill;
  rank.lost_connection = message.lost_connection;
  rank.out_of_memory = message.out_of_memory;
  rank.dev_shm_is_full = message.dev_shm_is_full;
  rank.seconds = message.seconds;
  rank.user_seconds = message.user_seconds;
  rank.system_seconds = message.system_seconds;
  rank.peak_memory_bytes = message.peak_memory_bytes;
  rank.last_error = message.last_error;
  rank.error_of_peer = message.error_of_peer;
  rank.in_collective = message.in_collective;
  rank.counters = message.counters;
  rank.failure = message.failure;
  const auto index = static_cast<std::size_t>(message.rank);
  // The others may have called MPI_Abort because of this rank's, and ended before it.
  if (!rank.abort_code) failed_at_[index] = message.agent_clock - message.failure.seconds_ago;
  end_order_.push_back(index);
  set_clock(host_indices_[index], std::chrono::duration<double>(now - begun_).count(),
            message.agent_clock);
  return rank;
}

void RankTable::set_clock(std::size_t host, double launcher_clock, double agent_clock) {
  // Two hosts' clocks drift apart by less than this: 9 s in a day.
  constexpr double kDrift = 1e-4;
  AgentClock& clock = agent_clocks_[host];
  double difference = launcher_clock - agent_clock;
  if (clock.difference)
    difference =
        std::min(difference, *clock.difference + kDrift * (launcher_clock - clock.measured_at));
  clock = {difference, launcher_clock};
  for (const std::size_t rank : end_order_)
    if (host_indices_[rank] == host) ranks_[rank].failed_after = failed_at_[rank] + difference;
}

bool RankTable::all_ended_on(std::size_t host_index) const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (host_indices_[rank] == host_index && runs(rank)) return false;
  return true;
}

std::vector<int> RankTable::running() const {
  std::vector<int> running;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (runs(rank)) running.push_back(ranks_[rank].placement.rank);
  return running;
}

std::vector<int> RankTable::lose_host(std::size_t host_index) {
  std::vector<int> lost;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (host_indices_[rank] == host_index && runs(rank)) {
      lost_.insert(rank);
      lost.push_back(ranks_[rank].placement.rank);
    }
  return lost;
}

}  // namespace hvdrun
