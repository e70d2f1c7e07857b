// Which hosts a job may use and how many slots each has: a pure function of the job, the
// environment and this machine.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "hosts/inventory.hpp"
#include "model/allocation.hpp"
#include "model/job_spec.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

// The first that applies: -H, and then SLURM's variables do not count; a SLURM job's host; this
// machine. All of them are this machine in this version, so the allocation has one host.
//
// Slots: what -H says; the visible GPUs; without GPUs SLURM_NTASKS, where SLURM was asked for
// tasks; else the cores by the cores of a rank (--cpus-per-rank, else SLURM_CPUS_PER_TASK, else 1).
//
// Errors (exit code kExitUsage): -H names another host; a SLURM job has several hosts or runs on
// another; a SLURM variable makes no sense; the cores come from HVD_TOPOLOGY, which is another
// machine, but the ranks are to start and be bound.
Result<Allocation> find_allocation(const JobSpec& spec, const Environment& environment,
                                   const LocalMachine& machine);

// Whether `host` is a name of this machine: localhost, an address of the loopback network, its own
// name, or the part before the first dot of either where the other has no dot. No resolver is
// asked: that may take seconds, and two answers for one question.
bool names_this_machine(std::string_view host, std::string_view machine_name);

}  // namespace hvdrun
