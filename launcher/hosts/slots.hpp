// How many slots a host has: a pure function of what the user asked for, what SLURM says, and what
// the host itself offers.
#pragma once

#include "model/allocation.hpp"
#include "model/job_spec.hpp"

namespace hvdrun {

// Sets the slots of a host whose number the user did not say. The first that is known:
//   its GPUs: those that are visible there, or before anybody has looked, those that SLURM says
//   SLURM's tasks there, where tasks were asked for
//   its cores by the cores of a rank (--cpus-per-rank, else SLURM_CPUS_PER_TASK, else 1); before
//   anybody has looked, SLURM's CPUs by SLURM_CPUS_PER_TASK where SLURM says that it has no GPU
// Otherwise they stay open until the host has been asked.
void settle_slots(const JobSpec& spec, Host& host);

// The host has answered: keeps what it offers, and settles the slots anew.
void take_inventory(const JobSpec& spec, HostInventory inventory, Host& host);

}  // namespace hvdrun
