// The states and reasons that SLURM reports for a job, and what they mean for a user who waits for
// it. Pure functions, for any thread; they accept any text.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

enum class JobPhase {
  pending,  // in the queue, perhaps after it ran already
  running,  // on its hosts: being prepared, running, suspended, being cleaned up
  ended,
};

// Returns the phase of a state such as "PENDING". An unknown state (of a later SLURM) is treated as
// running, so that the launcher asks again.
JobPhase phase_of(std::string_view state);

// Explains why a pending job waits, for SLURM's most common reasons: "waits for hosts to become
// free". Returns an empty text for the others, whose names explain themselves.
std::string_view explain_reason(std::string_view reason);

// Returns whether what the partition has explains the reason.
bool depends_on_partition(std::string_view reason);

// Returns "pending (Resources)", "running", "out of memory".
std::string state_text(std::string_view state, std::string_view reason);

}  // namespace hvdrun
