// The names by which SLURM knows a host. A pure function, for any thread. It cannot
// fail: it leaves out what it cannot read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct NodeNames {
  std::string name;       // NodeName: SLURM's name, as in SLURM_JOB_NODELIST
  std::string address;    // NodeAddr: the name or address at which slurmd listens
  std::string host_name;  // NodeHostName: what the host calls itself
};

// Reads what `scontrol show node` prints. Leaves out a record without a name.
std::vector<NodeNames> parse_node_names(std::string_view text);

}  // namespace hvdrun
