// How many slots a host has, from the user's options, what a scheduler gives and the host's
// inventory. Pure functions, for any thread. They cannot fail.
#pragma once

#include "model/job_spec.hpp"
#include "model/placement.hpp"

namespace hvdrun {

// Sets the slots of a host for which the user gave no number. The first of these that is known:
//   its GPUs: those visible on the host, or without an inventory, those of the job
//   the job's tasks there, if tasks were asked for
//   its cores divided by --cpus-per-rank; its hardware threads divided by the CPUs of each
//     task; or its cores. None of these is more than the CPU quota of its cgroup. Without an
//     inventory: the job's CPUs there divided by the CPUs of each task, if the host has no GPU of
//     the job and --cpus-per-rank is not given
// If none is known, the slots stay open until the host's agent has reported its inventory.
void settle_slots(const JobSpec& spec, Host& host);

// Stores the inventory that the host's agent has reported, and settles the slots again.
void take_inventory(const JobSpec& spec, HostInventory inventory, Host& host);

}  // namespace hvdrun
