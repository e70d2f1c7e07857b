// Sums in the order in which ranks are reduced: first those of each host, then the hosts.
#pragma once

#include "collective/communicator.hpp"

#include <optional>
#include <vector>

namespace libhvd::test {

// `value_of`: (rank) -> double; hosts[r]: the host of rank r.
template <class ValueOf>
double sum_in_order(const std::vector<int>& hosts, ValueOf value_of) {
  std::vector<std::optional<double>> sums(hosts.size());  // by host
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    auto& sum = sums[static_cast<std::size_t>(hosts[rank])];
    const double value = value_of(static_cast<int>(rank));
    sum = sum ? *sum + value : value;
  }
  double total = *sums[0];
  for (std::size_t host = 1; host < sums.size() && sums[host]; ++host) total += *sums[host];
  return total;
}

// Returns the host on which run_ranks_everywhere() has put each rank.
inline std::vector<int> hosts_of(const Communicator& communicator) {
  std::vector<int> hosts;
  for (int rank = 0; rank < communicator.size(); ++rank)
    hosts.push_back(communicator.on_one_host() ? 0 : rank % 2);
  return hosts;
}

}  // namespace libhvd::test
