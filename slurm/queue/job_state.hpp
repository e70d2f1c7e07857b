// What SLURM's words for a job's state mean to somebody who waits for it.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

enum class JobPhase {
  pending,  // it waits for its turn, perhaps once more
  running,  // on its hosts: being prepared, running, suspended, being cleaned up
  ended,
};

// A word that is not known (a later SLURM's) counts as running: it is asked for again.
JobPhase phase_of(std::string_view state);

// Why a pending job waits, for SLURM's best known reasons: "waits for free hosts". Empty for
// others, whose names say it.
std::string_view explain_reason(std::string_view reason);

// "pending (Resources)", "running", "out of memory"
std::string state_text(std::string_view state, std::string_view reason);

}  // namespace hvdrun
