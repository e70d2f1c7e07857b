#include "bootstrap/rank_topology.hpp"

#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

// Where a rank is.
struct Position {
  int node = 0;
  int local_rank = 0;
};

// Returns the position of each rank, and counts the ranks of each host.
Result<std::vector<Position>> find_positions(std::span<const RankInfo> infos,
                                             std::map<int, int>& ranks_on_node) {
  std::vector<Position> positions;
  std::map<std::pair<int, int>, int> taken;  // (node, local rank) -> rank
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    const int node = infos[rank].node_rank.value_or(0);
    const int index_on_node = ranks_on_node[node]++;
    const Position found{node, infos[rank].local_rank.value_or(index_on_node)};
    const auto [other, is_new] =
        taken.try_emplace({found.node, found.local_rank}, static_cast<int>(rank));
    if (!is_new) {
      return fail(HVD_ERROR_ENVIRONMENT, "ranks " + std::to_string(other->second) + " and " +
                                             std::to_string(rank) + " both have local rank " +
                                             std::to_string(found.local_rank) + " on host " +
                                             std::to_string(found.node));
    }
    positions.push_back(found);
  }
  return positions;
}

Result<void> check_sizes(std::span<const RankInfo> infos) {
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    if (infos[rank].size != static_cast<int>(infos.size())) {
      return fail(HVD_ERROR_ENVIRONMENT, "rank " + std::to_string(rank) +
                                             " was started with size " +
                                             std::to_string(infos[rank].size) + ", others with " +
                                             std::to_string(infos.size()));
    }
  }
  return {};
}

}  // namespace

Result<Topology> make_topology(std::span<const RankInfo> infos, int rank) {
  HVD_CHECK(check_sizes(infos));
  std::map<int, int> ranks_on_node;
  HVD_TRY(const auto positions, find_positions(infos, ranks_on_node));
  const auto index = static_cast<std::size_t>(rank);
  const Position& own = positions[index];

  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<int>(infos.size());
  // Launchers may number hosts with gaps, so this counts the hosts with smaller numbers.
  topology.node_rank =
      static_cast<int>(std::distance(ranks_on_node.begin(), ranks_on_node.find(own.node)));
  topology.local_rank = own.local_rank;
  topology.local_size = infos[index].local_size.value_or(ranks_on_node[own.node]);
  topology.node_count = infos[index].node_count.value_or(static_cast<int>(ranks_on_node.size()));
  topology.cross_size = 0;
  for (const Position& other : positions) {
    if (other.local_rank != own.local_rank) continue;
    if (other.node < own.node) ++topology.cross_rank;
    ++topology.cross_size;
  }
  for (const auto& [node, count] : ranks_on_node) {
    if (count != ranks_on_node.begin()->second) topology.is_homogeneous = false;
  }
  return topology;
}

}  // namespace libhvd
