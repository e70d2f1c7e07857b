// Whether this host is a login node: it belongs to the cluster of a scheduler, and none of its jobs
// run here. Looks at files only; no scheduler is asked. For any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "schedulers/schedulers.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

// Returns a note for the user if ranks would run on a login node because nothing says where else;
// otherwise "". `root`: of the files; "/" but in tests. Error (kExitUsage): so they would, and
// --login-node refuses it.
Result<std::string> check_login_node(const JobSpec& spec, const Allocation& allocation,
                                     const Environment& environment,
                                     const std::filesystem::path& root = "/",
                                     Schedulers all = schedulers());

}  // namespace hvdrun
