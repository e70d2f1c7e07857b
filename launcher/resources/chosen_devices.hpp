// What a user's choice of devices means on each host of a job: the variables CUDA_VISIBLE_DEVICES,
// ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK and their kind. Pure functions, for any thread. They
// cannot fail.
//
// The rule: a choice means the same on all hosts. In a scheduler's job its numbers count among
// the devices that the job has on each host, and what is not among them is left out. A value that
// the scheduler itself has set is no choice. Names of devices (GPU-…, MIG-…) are valid on one host
// only and stay there.
//
// SLURM writes into four of these variables the numbers of SLURM_JOB_GPUS, or if the job's cgroup
// hides other devices, 0, 1, … Source: gres.conf(5) and sbatch(1).
#pragma once

#include "base/environment.hpp"
#include "model/device_choice.hpp"
#include "schedulers/schedulers.hpp"

#include <string>
#include <vector>

namespace hvdrun {

struct ChosenDevices {
  std::vector<DeviceChoice> elsewhere;       // for the agents of other hosts
  std::vector<std::string> notes;            // how this host differs from what was typed
  std::vector<std::string> notes_elsewhere;  // how other hosts differ from this one
};

// Returns the choices in the caller's environment, and writes into that what they mean here. If the
// user has unset CUDA_VISIBLE_DEVICES in such a job, the scheduler's value is set again: other
// hosts have theirs.
ChosenDevices choose_devices(Environment& environment, Schedulers all = schedulers());

// Writes the choices into the environment of an agent, whose own values are those of a step
// or of a login. Returns a note for each choice that it cuts to them.
std::vector<std::string> apply_choices(const std::vector<DeviceChoice>& choices,
                                       Environment& environment);

// Returns how many GPUs of so many that a job has on a host the choice leaves CUDA.
int count_chosen_gpus(const std::vector<DeviceChoice>& choices, int gpus);

}  // namespace hvdrun
