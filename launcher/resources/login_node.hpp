// Whether this host is a login node: it belongs to a SLURM cluster, and none of its jobs run here.
// Looks at files only; SLURM is not asked. For any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

// Returns whether there is a slurm.conf, and no slurmd. `root`: of the files; "/" but in tests.
bool is_login_node(const Environment& environment, const std::filesystem::path& root = "/");

// Returns a note for the user if ranks would run on a login node because nothing says where else;
// otherwise "". Error (kExitUsage): so they would, and --login-node refuses it.
Result<std::string> check_login_node(const JobSpec& spec, const Allocation& allocation,
                                     const Environment& environment,
                                     const std::filesystem::path& root = "/");

}  // namespace hvdrun
