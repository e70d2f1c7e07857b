// Decides which rank goes where, on which GPU and cores: a pure function of what the user asked for
// and of what the hosts offer.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/placement_text.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Gives the ranks their hosts, cores and GPUs. A host without ranks takes no part. By slot
// (--map-by) the ranks of a host follow each other; by node they are numbered across the hosts, the
// first of each, then the second.
//
// It may be called twice: before other hosts have been asked, when their cores are not known and
// their GPUs are what SLURM says (is_provisional) or nothing can be placed at all (to_ask); and
// after, when every host has its inventory and the placement is what will be started.
//
// More ranks than cores, or than SLURM's tasks, is a note, as is SLURM's number of tasks where the
// GPUs decide. Hosts that have the same to be said of share a note.
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

// Users mean two things by --ntasks-per-node: one launcher a host, or one task a GPU. Both give one
// rank per GPU; where the number of tasks is another one, this says what was made of it.

// Adds what is to be said of `host`, on which `ranks` were placed: that fewer GPUs are visible than
// SLURM gives, in any case; nothing else where the user gave a number of ranks, or where tasks and
// GPUs are the same.
void add_slurm_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes);

// How many ranks on which host: a pure function.

// No host starts more than this: above it process ids run out (kernel.pid_max is often 4194304, but
// 32768 by default on small machines), and a typing error should not start a million processes.
inline constexpr int kMaxRanksPerHost = 100000;

// And no job has more than this.
inline constexpr int kMaxRanks = 1000000;

struct RankCounts {
  std::vector<int> by_host;  // in the allocation's order; may be 0
  // Hosts whose slots decide, but are not known before they are asked; then by_host is empty.
  std::vector<std::string> to_ask;
};

// Ranks: -np; else --ranks-per-host on every host; else one a slot. By slot, they fill the hosts in
// order, to the slots of each (or to --ranks-per-host), and the rest goes round the hosts that may
// take more. By node, or with --nnodes, they are dealt out one to each host in turn, up to the same
// numbers.
//
// Limits: the slots that the user states, and the host's GPUs unless --gpu-bind none;
// --oversubscribe lifts both, but for a hostfile's max_slots.
//
// Errors (kExitUsage) say what there is and what to type.
Result<RankCounts> count_ranks(const JobSpec& spec, const Allocation& allocation);

// The GPUs of a host: those that are there, or before anybody has looked, those that SLURM says.
int count_gpus(const Host& host);

// Whether ranks are given GPUs there.
bool gpus_count(const JobSpec& spec, const Host& host);

}  // namespace hvdrun
