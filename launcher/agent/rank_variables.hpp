// What a rank learns from the agent of its host through its environment: where the job's shared
// memory, its status page and files of frameworks are. Functions for the agent's thread.
#pragma once

#include "agent/job_folders.hpp"
#include "agent/member_server.hpp"
#include "agent/status_pages.hpp"
#include "base/result.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace hvdrun {

// Writes the file that MLX_HOSTFILE names, if the job has one. Error: it cannot be written.
Result<void> write_mlx_hosts(const JobFolders& folders, const LaunchMessage& job);

// Writes that file again if it is not there any more. Returns whether that was needed.
Result<bool> restore_mlx_hosts(const JobFolders& folders, const LaunchMessage& job);

// Adds the variables whose values are this host's own, and which of its network interfaces lead to
// the other hosts. `with_mpi`: programs of MPI find each other by PMIx.
void add_host_variables(LaunchMessage& job, bool with_mpi);

// Returns the variables of the rank with this index in job.ranks: "NAME=VALUE". `members`: null if
// the job ends when a rank is lost.
std::vector<std::string> rank_variables(const JobFolders& folders, const LaunchMessage& job,
                                        const StatusPages& pages, const MemberServer* members,
                                        std::size_t index);

}  // namespace hvdrun
