// Which rank runs where: its host, GPU and cores. A pure function, for any thread, of what the user
// asked for and of what the hosts offer.
#pragma once

#include "base/result.hpp"
#include "gpus/gpu_vendors.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <string>

namespace hvdrun {

// Gives the ranks their hosts, cores and GPUs. A host without ranks and spares is not used. With
// --map-by slot the ranks of a host have consecutive numbers. With --map-by node the numbers go
// across the hosts: first the first rank of each, then the second.
//
// May be called twice. The first call is before other hosts have reported their inventory: their
// cores are not known, and their GPUs are what the scheduler says (is_provisional), or nothing can
// be placed at all (to_ask). The second is after, and returns the placement that will be started.
//
// Notes say that a host has more ranks than cores or than the job's tasks, and how a scheduler's
// number of tasks was read where the GPUs decide. Users mean two things by --ntasks-per-node: one
// launcher per host, or one task per GPU. Both give one rank per GPU. Hosts with equal notes share
// a line.
//
// GPUs: local rank r uses GPU r of its host, modulo their number. `all`: the rank sees all of them,
// and its device is r. `single`: the vendor's variable holds only its GPU, and its device is 0. So
// it is too where HostInventory::single_because says why. `none`: no device.
//
// Cores: see bind_cores.hpp. Memory: bound to the NUMA nodes of the rank's cores, if these are
// fewer than the nodes of all cores of the host.
//
// Errors (kExitUsage) say what the hosts have and what to type.
Result<Placement> place(const JobSpec& spec, const Allocation& allocation,
                        const GpuVendors& vendors = gpu_vendors());

// Returns the note that spares of this placement have no slot, and how to give them one; "" if all
// have one.
std::string spares_without_slot(const JobSpec& spec, const Allocation& allocation,
                                const Placement& placement);

// Returns a GPU's name for people: "GPU 3 (NVIDIA H200, 0000:3b:00.0)". `index`: in its host's
// inventory.
std::string name_gpu(const Gpu& gpu, int index);

}  // namespace hvdrun
