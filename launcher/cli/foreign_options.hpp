// Options of other launchers, known by name so that none is silently ignored: horovodrun's, and
// what people type who know torchrun, mpirun, srun, sbatch, accelerate or deepspeed. One table for
// all commands of hvdrun. Constants and pure functions, for any thread.
//
// The rule: an option that means the same as one of hvdrun's is taken for it. One that makes no
// difference here is accepted with a note. Any other is refused, and the message names what to use.
// Sources: horovodrun 0.28.1 (horovod/runner/launch.py), torchrun 2.11, Open MPI 4.1 and 5.0
// (mpirun(1)), MPICH 4.0 (hydra), SLURM 22.05 (srun(1), sbatch(1)), accelerate 1.15, deepspeed
// 0.15. docs/reference/other-launchers.md lists each of their options with hvdrun's answer.
#pragma once

#include "cli/foreign_option.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// Returns the tables of all launchers in one.
const std::vector<ForeignOption>& foreign_options();

// Returns the option with that spelling, or null. `is_batch`: for sbatch and salloc.
const ForeignOption* find_foreign_option(std::string_view spelling, bool is_batch = false);

// Returns why the option is refused, and what to use. In a SLURM job no answer says how to name
// hosts.
std::string_view answer_to(const ForeignOption& option, bool has_scheduler);

// Returns "--mpi-args is an option of horovodrun that hvdrun does not have: hvdrun calls no
// mpirun; …". `named` is the option as it was typed, or the key of a config file.
std::string refusal_of(const ForeignOption& option, const std::string& named,
                       bool has_scheduler = false);

}  // namespace hvdrun::cli
