// Refuses a program that itself starts ranks: hvdrun would start it once in each of its slots, so
// that there are N jobs of N ranks, or clashes of ports. For any thread; reads the shell scripts
// that the words name.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/words.hpp"
#include "model/job_spec.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// What the words of a command line mean where it is typed.
struct TypedJob {
  const JobSpec& spec;
  const std::vector<ParsedOption>& options;
  const Environment& environment;
  std::filesystem::path folder;      // of the ranks
  std::string_view subcommand = {};  // sbatch or salloc, if the job is one of theirs
};

// Checks the words of the program, and what they start: after `env`, `uv run` and the like, in
// `bash -c` and in shell scripts. One rank may be a launcher, and so may one rank per host if it is
// torchrun or accelerate. Returns a warning if the launcher may not run, because it is in a branch
// of a script, or may be none, because only its options look like a launcher's; otherwise "". Error
// (kExitUsage): it says what to type, with the launcher's options translated, and which of them
// that leaves out.
Result<std::string> check_nested_launcher(const std::vector<std::string>& command,
                                          const TypedJob& job);

// Returns whether the command is a shell's text or script that starts ranks itself for certain, so
// that it is meant to run once in an allocation.
bool is_script_with_launcher(const std::vector<std::string>& command, const TypedJob& job);

// Returns whether the words may start torchrun or a launcher with its options, which read from
// variables which of the hosts they are on.
bool starts_torchrun(const std::vector<std::string>& command, const TypedJob& job);

// Returns a warning for rank 0 of another launcher, which has started hvdrun several times: by
// `mpirun -np 2 hvdrun …`, or by a script of which hvdrun starts a copy in each slot. Otherwise
// returns an empty text, as for a job of one rank.
std::string several_runs_warning(const Environment& environment, const JobSpec& spec);

// Returns a warning for `podman run` or `docker run` that gives the container no variables: its
// ranks would run apart, without a word. Otherwise returns an empty text, as for a job of one rank.
std::string container_warning(const std::vector<std::string>& command, const JobSpec& spec);

}  // namespace hvdrun::cli
