// Users mean two things by --ntasks-per-node: one launcher a host, or one task a GPU. Both give one
// rank per GPU; where the number of tasks is another one, this says what was made of it.
#pragma once

#include "model/allocation.hpp"
#include "model/job_spec.hpp"
#include "placement/host_notes.hpp"

namespace hvdrun {

// Adds what is to be said of `host`, on which `ranks` were placed: that fewer GPUs are visible than
// SLURM gives, in any case; nothing else where the user gave a number of ranks, or where tasks and
// GPUs are the same.
void add_slurm_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes);

}  // namespace hvdrun
