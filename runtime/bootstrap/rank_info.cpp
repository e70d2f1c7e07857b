#include "bootstrap/rank_info.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>
#include <string>

namespace libhvd {

namespace {

Error wrong(const std::string& why) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "the list of ranks to start with: " + why);
}

ChosenRanks all_of(int size) {
  ChosenRanks all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

constexpr int kUnknown = -1;

// What one rank was told, completed.
struct Position {
  int node = 0;
  int local_rank = 0;
};

Result<std::vector<Position>> make_places(std::span<const RankInfo> infos,
                                          std::map<int, int>& ranks_on_node) {
  std::vector<Position> places;
  std::map<std::pair<int, int>, int> taken;  // (node, local rank) -> rank
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    const int node = infos[rank].node_rank.value_or(0);
    const int position = ranks_on_node[node]++;
    const Position place{node, infos[rank].local_rank.value_or(position)};
    const auto [other, is_new] =
        taken.try_emplace({place.node, place.local_rank}, static_cast<int>(rank));
    if (!is_new) {
      return fail(HVD_ERROR_ENVIRONMENT, "ranks " + std::to_string(other->second) + " and " +
                                             std::to_string(rank) + " both have local rank " +
                                             std::to_string(place.local_rank) + " on host " +
                                             std::to_string(place.node));
    }
    places.push_back(place);
  }
  return places;
}

Result<void> check_sizes(std::span<const RankInfo> infos) {
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    if (infos[rank].size != static_cast<int>(infos.size())) {
      return fail(HVD_ERROR_ENVIRONMENT, "rank " + std::to_string(rank) + " was told a size of " +
                                             std::to_string(infos[rank].size) + ", others " +
                                             std::to_string(infos.size()));
    }
  }
  return {};
}

}  // namespace

Result<ChosenRanks> choose_ranks(const std::optional<std::vector<int>>& wanted,
                                 const RankInfo& in_job) {
  if (!wanted) return ChosenRanks();
  if (wanted->empty()) return wrong("it is empty");
  ChosenRanks sorted = *wanted;
  std::sort(sorted.begin(), sorted.end());
  for (const int rank : sorted) {
    if (rank < 0 || rank >= in_job.size)
      return wrong("rank " + std::to_string(rank) + " is not one of the job's " +
                   std::to_string(in_job.size));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return wrong("rank " + std::to_string(*twice) + " stands twice in it");
  if (!std::binary_search(sorted.begin(), sorted.end(), in_job.rank))
    return wrong("rank " + std::to_string(in_job.rank) +
                 ", this one, is not in it; only the ranks in it may start with it");
  return *wanted == all_of(in_job.size) ? ChosenRanks() : *wanted;
}

// Which ranks of a host are chosen too only the ranks together know (Topology).
RankInfo place_among(const ChosenRanks& chosen, const RankInfo& in_job) {
  if (chosen.empty()) return in_job;
  const auto own = std::find(chosen.begin(), chosen.end(), in_job.rank);
  RankInfo info;
  info.rank = static_cast<int>(own - chosen.begin());
  info.size = static_cast<int>(chosen.size());
  info.node_rank = in_job.node_rank;
  info.number = in_job.rank;
  return info;
}

int number_among(const ChosenRanks& chosen, int place) {
  return chosen.empty() ? place : chosen[static_cast<std::size_t>(place)];
}

Result<Topology> make_topology(std::span<const RankInfo> infos, int rank) {
  HVD_CHECK(check_sizes(infos));
  std::map<int, int> ranks_on_node;
  HVD_TRY(const auto places, make_places(infos, ranks_on_node));
  const auto index = static_cast<std::size_t>(rank);
  const Position& own = places[index];

  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<int>(infos.size());
  // Launchers may number hosts with gaps.
  topology.node_rank =
      static_cast<int>(std::distance(ranks_on_node.begin(), ranks_on_node.find(own.node)));
  topology.local_rank = own.local_rank;
  topology.local_size = infos[index].local_size.value_or(ranks_on_node[own.node]);
  topology.node_count = infos[index].node_count.value_or(static_cast<int>(ranks_on_node.size()));
  topology.cross_size = 0;
  for (const Position& place : places) {
    if (place.local_rank != own.local_rank) continue;
    if (place.node < own.node) ++topology.cross_rank;
    ++topology.cross_size;
  }
  for (const auto& [node, count] : ranks_on_node) {
    if (count != ranks_on_node.begin()->second) topology.is_homogeneous = false;
  }
  return topology;
}

std::string encode_rank_info(const RankInfo& info) {
  std::ostringstream text;
  text << info.rank << ' ' << info.size << ' ' << info.local_rank.value_or(kUnknown) << ' '
       << info.local_size.value_or(kUnknown) << ' ' << info.node_rank.value_or(kUnknown) << ' '
       << info.node_count.value_or(kUnknown) << ' ' << info.number.value_or(kUnknown);
  return text.str();
}

Result<RankInfo> decode_rank_info(const std::string& text) {
  RankInfo info;
  int optional[5];
  std::istringstream words(text);
  words >> info.rank >> info.size;
  for (int& value : optional) words >> value;
  if (!words) return fail(HVD_ERROR_SYSTEM, "a rank sent \"" + text + "\" as its place in the job");
  const auto known = [](int value) {
    return value == kUnknown ? std::nullopt : std::optional<int>(value);
  };
  info.local_rank = known(optional[0]);
  info.local_size = known(optional[1]);
  info.node_rank = known(optional[2]);
  info.node_count = known(optional[3]);
  info.number = known(optional[4]);
  return info;
}

}  // namespace libhvd
