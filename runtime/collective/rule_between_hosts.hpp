// The rule by which an allreduce between several hosts takes the bridges or the streams. Pure
// functions; all ranks get the same answer.
#pragma once

#include "transport/transport.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace libhvd {

// Returns how many bytes a small allreduce has at most. For these the bridges bring every rank's
// data to all hosts, and every rank reduces all of it, in one step. Larger data takes the streams
// (hosts_allreduce.hpp). `area`: how many bytes a rank shows in a step, fewer with many ranks.
inline std::size_t most_small_between_hosts(std::size_t area) {
  return std::min<std::size_t>(area, 32 * 1024);
}

// Above this the bridges are faster again for two ranks, each on a host of its own (measured). Both
// ways move the same number of bytes.
inline constexpr std::size_t kLargeBytesOfTwoRanks = 4 * 1024 * 1024;

// Only the streams compress.
inline bool goes_by_streams(std::size_t bytes, int ranks, std::size_t area, Transport transport,
                            bool compressed) {
  const bool bridges_again =
      transport == Transport::tcp && ranks == 2 && bytes > kLargeBytesOfTwoRanks && !compressed;
  return bytes > most_small_between_hosts(area) && !bridges_again;
}

// Describes the rule for HVD_VERBOSE. `way`: what the connections use.
inline std::string describe_rule(int ranks, int hosts, int channels, std::size_t area,
                                 Transport transport, const std::string& way) {
  return std::to_string(ranks) + " ranks on " + std::to_string(hosts) +
         " hosts: an allreduce of up to " + std::to_string(most_small_between_hosts(area) / 1024) +
         " KiB goes by the bridges in one step, a larger one is reduced in each host first and "
         "goes "
         "by " +
         std::to_string(channels) + " connections between each two hosts, over " + way +
         (transport == Transport::tcp && ranks == 2 ? ", from 4 MiB on by the bridges again" : "");
}

}  // namespace libhvd
