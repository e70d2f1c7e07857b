// Decides which rank goes where, on which GPU and cores: a pure function of what the user asked for
// and of what the hosts offer.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

namespace hvdrun {

// How many ranks on which host: rank_counts.hpp. A host without ranks takes no part. By slot
// (--map-by) the ranks of a host follow each other; by node they are numbered across the hosts, the
// first of each, then the second.
//
// It may be called twice: before other hosts have been asked, when their cores are not known and
// their GPUs are what SLURM says (is_provisional) or nothing can be placed at all (to_ask); and
// after, when every host has its inventory and the placement is what will be started.
//
// More ranks than cores, or than SLURM's tasks, is a note, as is SLURM's number of tasks where the
// GPUs decide (slurm_shape.hpp). Hosts that have the same to be said of share a note.
//
// Devices: local rank r uses GPU r of its host (modulo their number). `all`: the rank sees all of
// them and its device is r. `single`: CUDA_VISIBLE_DEVICES holds its GPU only and its device is 0;
// MIG devices are always given so, since CUDA shows a process one of them. `none`: no device.
//
// Cores: see bind_cores.hpp. Memory: the NUMA nodes of the rank's cores, where they are fewer than
// the host's cores have.
//
// Errors (kExitUsage) say what there is and what to type.
Result<Placement> place(const JobSpec& spec, const Allocation& allocation);

}  // namespace hvdrun
