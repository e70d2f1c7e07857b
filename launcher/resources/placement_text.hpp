// Notes about hosts, in which hosts that have the same to be said of come together:
// "4 ranks on each of n[1-64] share 2 cores".
#pragma once

#include "model/placement.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace hvdrun {

class HostNotes {
 public:
  // A note is: before, the host, after. Of several hosts: before, "each of" them, after.
  void add(const std::string& host, std::string before, const std::string& after);

  // "n1 gets no rank", "n[1-4] get no rank".
  void add_plural(const std::string& host, std::string after_one, std::string after_many);

  // The notes in the order in which they were first added.
  std::vector<std::string> lines() const;

 private:
  struct Note {
    std::string before;
    std::string after_one;
    std::string after_many;
    std::vector<std::string> hosts;
  };
  void append(const std::string& host, Note note);

  std::vector<Note> notes_;
  std::map<std::tuple<std::string, std::string>, std::size_t> known_;  // by before and after_one
};

// A placement for programs: what --dry-run --json prints. The fields are stable: new ones may come,
// none goes or changes its meaning.
//
//   source            string         where the hosts come from: "this machine", "-H", "SLURM job 7"
//   size              integer        ranks in the job; 0 while hosts are to be asked
//   reasons           [string]       what was taken and why, one line each
//   notes             [string]       one line each
//   to_ask            [string]       hosts whose slots must be known before ranks can be placed;
//   then
//                                    `hosts` is empty
//   hosts             [object]       by host index; hosts without ranks are left out
//     host            string
//     slots           integer | null   null: not known before the host is asked
//     slots_source    string         why so many: "8 GPUs", "SLURM_NTASKS", "2 cores", "-H"
//     gpu_source      string         how the GPUs were found, or who says how many there are
//     provisional     boolean        nobody has looked at the host yet: cores and GPUs may differ
//     ranks           [object]       by local rank
//       rank, local_rank, cross_rank, cross_size   integers
//       device          integer | null   CUDA ordinal in the rank's own numbering
//       visible_devices string | null    CUDA_VISIBLE_DEVICES of the rank; null: as the caller's
//       gpu             object | null    {index, visible, uuid, pci_address, name, memory_bytes,
//                                        numa_node}; index is the GPU's place on its host; what
//                                        nothing described is null
//       cpus            [integer]        operating system's numbers; empty: not bound
//       numa_nodes      [integer]        likewise

// One object, indented by two, with a newline at the end.
std::string placement_json(const Allocation& allocation, const Placement& placement);

// A placement for people: what --dry-run and --report-bindings print. For programs there is
// placement_json().

// Several lines, the last with its newline: what was taken and why (where the hosts come from,
// their slots, cores and GPUs), one row a rank, and the notes. Hosts of which the same is to be
// said share a line; of more than 16 hosts there is one row a kind of host and not one a rank. CPUs
// and NUMA nodes are the operating system's numbers, as taskset(1) and numactl(8) have them; "-" is
// not bound, or no GPU.
std::string placement_table(const Allocation& allocation, const Placement& placement);

// "rank 0 on n1: CPUs 0-7,64-71 (8 cores, package 0, NUMA 0), GPU 0 (NVIDIA H200, 0000:3b:00.0)",
// without newline. `host` is the rank's.
std::string bindings_line(const Host& host, const RankPlacement& rank);

// That line for every rank, in order.
std::vector<std::string> bindings_lines(const Allocation& allocation, const Placement& placement);

}  // namespace hvdrun
