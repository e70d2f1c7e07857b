// Options of other launchers, known by name so that none is silently ignored: horovodrun's, and
// what people type who know torchrun, mpirun, srun, sbatch, accelerate or deepspeed. One table for
// all commands of hvdrun. Constants and pure functions, for any thread.
//
// The rule: an option that means the same as one of hvdrun's is taken for it. One that makes no
// difference here is accepted with a note. Any other is refused, and the message names what to use.
// Sources: horovodrun 0.28.1 (horovod/runner/launch.py), torchrun 2.9, Open MPI 4.1 (mpirun(1)),
// MPICH 4.0 (hydra), SLURM 22.05 (srun(1), sbatch(1)), accelerate 1.0, deepspeed 0.15.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace hvdrun::cli {

struct ForeignOption {
  enum class Kind {
    same,      // means what hvdrun's option `text` means, which has a value too
    accepted,  // has no effect
    refused,
  };
  std::array<std::string_view, 3> spellings;  // as typed; unused ones are empty
  std::string_view of;                        // "horovodrun"
  Kind kind = Kind::refused;
  bool takes_value = false;
  // Same: the spelling of hvdrun's option. Accepted: why it makes no difference; empty if that
  // needs no words. Refused: why, and what to use instead.
  std::string_view text;
  bool batch_only = false;  // only for sbatch and salloc
};

std::span<const ForeignOption> foreign_options();

// Returns the option with that spelling, or null. `is_batch`: for sbatch and salloc.
const ForeignOption* find_foreign_option(std::string_view spelling, bool is_batch = false);

// Returns "--mpi-args is an option of horovodrun that hvdrun does not have: hvdrun calls no
// mpirun; …". `named` is the option as it was typed, or the key of a config file.
std::string refusal_of(const ForeignOption& option, const std::string& named);

}  // namespace hvdrun::cli
