// The tables of other launchers' options, one for each family of launchers, and the functions that
// make their rows. Constants, for any thread.
#pragma once

#include "cli/foreign_option.hpp"

#include <span>
#include <string_view>

namespace hvdrun::cli {

std::span<const ForeignOption> options_of_mpi();     // mpirun and mpiexec of Open MPI and MPICH
std::span<const ForeignOption> options_of_slurm();   // srun and sbatch
std::span<const ForeignOption> options_of_python();  // torchrun, accelerate, deepspeed; any other

using Spellings = std::array<std::string_view, 8>;

// Returns an option with a value that means hvdrun's option `ours`.
constexpr ForeignOption same(std::string_view of, Spellings spellings, std::string_view ours) {
  return {spellings, of, ForeignOption::Kind::same, true, ours};
}

// Returns an option without a value that means hvdrun's option `ours`, "--map-by=node".
constexpr ForeignOption flag(std::string_view of, Spellings spellings, std::string_view ours) {
  return {spellings, of, ForeignOption::Kind::flag, false, ours};
}

// Returns an option that is accepted and has no effect.
constexpr ForeignOption ignored(std::string_view of, Spellings spellings, std::string_view reason) {
  return {spellings, of, ForeignOption::Kind::accepted, false, reason, false, true};
}

// The same for one with a value.
constexpr ForeignOption ignored_value(std::string_view of, Spellings spellings,
                                      std::string_view reason) {
  return {spellings, of, ForeignOption::Kind::accepted, true, reason};
}

// Returns an option that is refused. `answer` says what to use instead.
constexpr ForeignOption answered(std::string_view of, Spellings spellings,
                                 std::string_view answer) {
  return {spellings, of, ForeignOption::Kind::refused, true, answer};
}

// Returns the option as one of sbatch and salloc only.
constexpr ForeignOption for_batch(ForeignOption option) {
  option.batch_only = true;
  return option;
}

// Returns the option as one whose answer says how to name hosts.
constexpr ForeignOption naming_hosts(ForeignOption option) {
  option.names_hosts = true;
  return option;
}

// Answers that fit options of several launchers.
inline constexpr std::string_view kStartedOnce =
    "start hvdrun once, on one host, with -H HOST,HOST: it starts the ranks on all of them";
inline constexpr std::string_view kRankFiles = "use --output-filename DIR, a file for each rank";
inline constexpr std::string_view kLabels = "labels are on; --label changes them";
inline constexpr std::string_view kFreePort =
    "hvdrun chooses a free port; -x MASTER_PORT=N sets one";
inline constexpr std::string_view kSeveralPrograms =
    "hvdrun starts one program; let a script choose by $HVD_RANK: sh -c 'if [ $HVD_RANK = 0 ]; "
    "then exec ./a; else exec ./b; fi'";
inline constexpr std::string_view kCopies = "hvdrun copies no files: they must be on each host";
inline constexpr std::string_view kTimeout = "use timeout SECONDS hvdrun …";
inline constexpr std::string_view kVerbose = "use --verbose";
inline constexpr std::string_view kOwnLines =
    "hvdrun's own lines are on stderr: 2> FILE keeps them apart";

}  // namespace hvdrun::cli
