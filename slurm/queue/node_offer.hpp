// What the nodes of a partition have, as sinfo tells it. Pure but for ask_node_offer.
#pragma once

#include "base/environment.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// A kind of node in a partition.
struct NodeOffer {
  std::string partition;
  bool is_default = false;  // the partition that a job gets which names none
  int gpus = 0;
  int cpus = 0;  // as SLURM counts them
  int nodes = 0;
};

// sinfo's words, and what it printed: a line for each partition and kind of node. What is no such
// line is passed over.
std::vector<std::string> sinfo_command();
std::vector<NodeOffer> parse_node_offers(std::string_view text);

// What a node of the partition has (empty: of the default one). None: SLURM knows no such
// partition, or its nodes differ.
std::optional<NodeOffer> offer_of(const std::vector<NodeOffer>& offers,
                                  const std::string& partition);

// The same of this machine's SLURM. None also where there is none, or it does not answer.
std::optional<NodeOffer> ask_node_offer(const std::string& partition,
                                        const Environment& environment);

}  // namespace hvdrun
