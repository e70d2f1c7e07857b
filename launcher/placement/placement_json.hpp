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
#pragma once

#include "model/allocation.hpp"
#include "model/placement.hpp"

#include <string>

namespace hvdrun {

// One object, indented by two, with a newline at the end.
std::string placement_json(const Allocation& allocation, const Placement& placement);

}  // namespace hvdrun
