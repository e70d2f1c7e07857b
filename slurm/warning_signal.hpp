// The signal that SLURM sends a batch job before its time limit (sbatch(1), --signal), and whether
// a job with --requeue gets it in time. Pure functions, for any thread. They have no errors: for
// what sbatch would not take, they return nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// [R|B:]SIGNAL[@SECONDS]
struct WarningSignal {
  bool for_shell = false;  // "B:": the batch shell gets it; otherwise the steps of srun
  int number = 0;
  std::chrono::seconds before{60};  // the time limit
};

// Returns nullopt if sbatch would not take it.
std::optional<WarningSignal> parse_warning_signal(std::string_view text);

// Reads a time limit as sbatch takes it: "90" (minutes), "1:30", "1:30:00", "2-0", "2-0:30",
// "2-0:30:00". Returns nullopt for everything else.
std::optional<std::chrono::seconds> parse_limit(std::string_view text);

// Returns why a job with this signal cannot go back into the queue, and the signal to type. Returns
// "" if it can, or if sbatch would not take the value.
std::string why_not_requeued(std::string_view signal);

// Says why the time limit leaves no time before the warning. `text` is empty if it does. Unless it
// `is_sure`, it may, because SLURM may send the warning a minute earlier.
struct LimitFault {
  std::string text;
  bool is_sure = false;
};
LimitFault compare_limit(std::chrono::seconds limit, const WarningSignal& warning);

}  // namespace hvdrun
