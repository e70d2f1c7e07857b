// A placement for programs: what --dry-run --json prints. For people there is placement_table. The
// fields are stable: new ones may be added, but none is removed or changes its meaning. A pure
// function, for any thread. It cannot fail.
//
//   source            string         where the hosts come from: "this machine", "-H", "SLURM job 7"
//   size              integer        ranks in the job; 0 while hosts are to be asked
//   reasons           [string]       what was chosen and why, one line each
//   notes             [string]       one line each
//   to_ask            [string]       hosts whose slots must be known before ranks can be placed;
//                                    `hosts` is then empty
//   hosts             [object]       by host index; hosts without ranks are left out
//     host            string
//     slots           integer | null   null: not known before the host is asked
//     slots_source    string         what decided it: "8 GPUs", "SLURM_NTASKS", "2 cores", "-H"
//     gpu_source      string         how the GPUs were found, or the source of their number
//     provisional     boolean        the host was not asked yet: cores and GPUs may differ
//     ranks           [object]       by local rank
//       rank, local_rank, cross_rank, cross_size   integers
//       device          integer | null   its GPU's number among those that the rank sees
//       visible_devices string | null    the rank's CUDA_VISIBLE_DEVICES, or that of another
//       vendor;
//                                        null: as the caller's
//       gpu             object | null    {index, visible, uuid, pci_address, name, memory_bytes,
//                                        numa_node}; index is the GPU's position on its host; a
//                                        field that is not known is null
//       cpus            [integer]        the operating system's numbers; empty: not bound
//       numa_nodes      [integer]        the operating system's numbers; empty: not bound
#pragma once

#include "model/placement.hpp"

#include <string>

namespace hvdrun {

// Returns one object, indented by two, with a newline at the end.
std::string placement_json(const Allocation& allocation, const Placement& placement);

}  // namespace hvdrun
