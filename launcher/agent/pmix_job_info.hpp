// What a PMIx server knows before its ranks start: its settings, this machine, and the job with its
// hosts, its ranks and where each runs. Plain functions, called on the agent's loop thread.
//
// Source: PMIx Standard 4.1, chapter 16.2.3 (PMIx_server_register_nspace).
#pragma once

#include "agent/pmix_job.hpp"
#include "agent/pmix_library.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

struct hwloc_topology;

namespace hvdrun {

// Reads this machine's topology. Returns null if hwloc fails; then libpmix reads the topology by
// itself, more slowly. Never freed: libpmix keeps it.
hwloc_topology* quick_topology();

// Sets the environment variables of libpmix and hwloc. They apply inside the agent only: ranks get
// the caller's environment.
void prepare_pmix_environment(const PmixLibrary& library, std::size_t local_ranks);

// Adds to the ranks' environment, unless it has them: I_MPI_PMI_LIBRARY, by which Intel MPI finds
// libpmix; and HOME, from passwd(5), or / for a user without an entry there, as in a container
// whose user is a number only. libpmix would crash there in each of its clients, and Open MPI 5
// ends.
void add_defaults_of_pmix(const PmixLibrary& library, std::vector<std::string>& environment);

// Describes the job to libpmix. `folder` is for the files of PMIx and of its clients. Error:
// libpmix cannot pack the maps of hosts and ranks.
Result<PmixInfoList> describe_job(const PmixLibrary& library, const PmixJob& job,
                                  const std::filesystem::path& folder);

}  // namespace hvdrun
