// The partitions of a SLURM cluster and what their nodes have, as sinfo reports it. Pure functions
// for any thread, except query_partitions, which runs sinfo and blocks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Nodes of one kind in a partition.
struct PartitionInfo {
  std::string partition;
  bool is_default = false;  // the partition of jobs that request none
  int gpus = 0;             // of each node
  int cpus = 0;             // of each node, as in sinfo (%c)
  int nodes = 0;
  std::string time_limit;  // of a job there, in sinfo's form; empty or "infinite": none
};

// Returns the sinfo command.
std::vector<std::string> sinfo_command();

// Reads what that command printed: a line for each partition and kind of node. Skips other lines.
std::vector<PartitionInfo> parse_partitions(std::string_view text);

// Returns what each node of the partition has, and the number of nodes. An empty name is the
// default partition. Returns nullopt if there is no such partition, or its nodes differ.
std::optional<PartitionInfo> find_partition(const std::vector<PartitionInfo>& all,
                                            const std::string& name);

// Returns the largest numbers of GPUs and CPUs that a node of the partition has, and the number of
// nodes. Returns nullopt if there is no such partition.
std::optional<PartitionInfo> largest_node(const std::vector<PartitionInfo>& all,
                                          const std::string& name);

// Returns "partition gpu has 4 nodes with 16 CPUs and 4 GPUs each, for at most 1:00:00 (sinfo)";
// empty if there is no such partition.
std::string describe_partition(const std::vector<PartitionInfo>& all, const std::string& name);

// Asks this machine's SLURM, for at most 10 seconds. Returns nothing if there is no SLURM or it
// does not answer. `environment`: query_environment().
std::vector<PartitionInfo> query_partitions(std::vector<std::string> environment);

}  // namespace hvdrun
