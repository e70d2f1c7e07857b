// Decides which rank goes where, on which GPU and cores: a pure function of what the user asked for
// and of what the hosts offer.
#pragma once

#include "base/result.hpp"
#include "model/allocation.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

namespace hvdrun {

// No host starts more than this: above it process ids run out (kernel.pid_max is often 4194304, but
// 32768 by default on small machines), and a typing error should not start a million processes.
inline constexpr int kMaxRanksPerHost = 100000;

// Ranks: -np; else --ranks-per-host on every host; else one a slot. They fill the hosts in order,
// to the slots of each (or to --ranks-per-host), then the rest goes round the hosts that may take
// more.
//
// Limits: the slots that -H states, and the host's GPUs unless --gpu-bind none; --oversubscribe
// lifts both. More ranks than cores, or than SLURM's tasks, is a note.
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
