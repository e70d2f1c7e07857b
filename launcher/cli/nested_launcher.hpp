// Refuses a program that itself starts ranks: hvdrun would start it once in each of its slots, so
// that there are N jobs of N ranks, or clashes of ports. Pure functions, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// Checks the words of the program, which may be `python3 -m MODULE`. One rank may be a launcher,
// and so may one rank per host if it is torchrun or accelerate. `subcommand`: sbatch or salloc, if
// the job is one of theirs. Error (kExitUsage): it says what to type, with the launcher's options
// translated, and which of them that leaves out.
Result<void> check_nested_launcher(const std::vector<std::string>& command, const JobSpec& spec,
                                   std::string_view subcommand = {});

// Returns whether the program is torchrun, which reads from variables which of the hosts it is on.
bool is_torchrun(const std::vector<std::string>& command);

// Returns a warning for rank 0 of another launcher, which has started hvdrun several times: by
// `mpirun -np 2 hvdrun …`, or by a script of which hvdrun starts a copy in each slot. Otherwise
// returns an empty text, as for a job of one rank.
std::string several_runs_warning(const Environment& environment, const JobSpec& spec);

// Returns a warning for `podman run` or `docker run` that gives the container no variables: its
// ranks would run apart, without a word. Otherwise returns an empty text, as for a job of one rank.
std::string container_warning(const std::vector<std::string>& command, const JobSpec& spec);

}  // namespace hvdrun::cli
