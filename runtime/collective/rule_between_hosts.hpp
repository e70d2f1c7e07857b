// The rule by which an allreduce between several hosts takes the bridges or the streams. Pure
// functions; all ranks get the same answer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace libhvd {

// Returns how many bytes a small allreduce has at most. For these the bridges bring every rank's
// data to all hosts, and every rank reduces all of it, in one step. The more ranks there
// are, the sooner the streams are quicker (hosts_allreduce.hpp): with 8 ranks between 16 and 32 KB,
// with 16 between 8 and 32. `area`: how many bytes a rank shows in a step, fewer with many ranks.
inline std::size_t most_small_between_hosts(int ranks, std::size_t area) {
  constexpr std::size_t kOfAllRanks = 160 * 1024;
  const std::size_t share = kOfAllRanks / static_cast<std::size_t>(ranks);
  return std::min(area, std::clamp<std::size_t>(share, 4 * 1024, 32 * 1024));
}

// Describes the rule for HVD_VERBOSE. `way`: what the connections use.
inline std::string describe_rule(int ranks, int hosts, int channels, std::size_t area,
                                 const std::string& way) {
  return std::to_string(ranks) + " ranks on " + std::to_string(hosts) +
         " hosts: an allreduce of up to " +
         std::to_string(most_small_between_hosts(ranks, area) / 1024) +
         " KiB goes by the bridges in one step, a larger one is reduced in each host first and "
         "goes by up to " +
         std::to_string(channels) + " connections between each two hosts, over " + way;
}

}  // namespace libhvd
