#include "agent/rank_variables.hpp"

#include "agent/gloo_interface.hpp"
#include "agent/mpi_interfaces.hpp"
#include "common/system.hpp"
#include "common/variables.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace hvdrun {
namespace {

std::filesystem::path mlx_hostfile(const JobFolders& folders) {
  return folders.shared / "mlx_hosts.json";
}

}  // namespace

Result<void> write_mlx_hosts(const JobFolders& folders, const LaunchMessage& job) {
  if (job.mlx_hosts.empty()) return {};
  const auto file = mlx_hostfile(folders);
  if (!(std::ofstream(file) << job.mlx_hosts << std::flush))
    return fail("cannot write " + file.string() + " on " + local_host_name());
  return {};
}

Result<bool> restore_mlx_hosts(const JobFolders& folders, const LaunchMessage& job) {
  std::error_code error;
  if (job.mlx_hosts.empty() || std::filesystem::exists(mlx_hostfile(folders), error)) return false;
  HVD_CHECK(write_mlx_hosts(folders, job));
  return true;
}

void add_host_variables(LaunchMessage& job, bool with_mpi) {
  for (const auto& name : job.host_variables)
    if (const char* value = ::getenv(name.c_str())) job.environment.push_back(name + "=" + value);
  InterfacesTowardsHosts towards_hosts(job);
  set_gloo_interface(job, towards_hosts);
  if (with_mpi) set_mpi_interfaces(job, towards_hosts);
}

std::vector<std::string> rank_variables(const JobFolders& folders, const LaunchMessage& job,
                                        const StatusPages& pages, const MemberServer* members,
                                        std::size_t index) {
  const LaunchRank& rank = job.ranks[index];
  std::vector<std::string> variables;
  for (const auto& [name, value] : rank.environment) variables.push_back(name + "=" + value);
  const std::string own[] = {
      HVD_ENV_STATUS "=" + pages.location(index),
      HVD_ENV_NOTICE_FD "=" + std::to_string(pages.notice_fd(index)),
      HVD_ENV_SHM_DIR "=" + folders.shared.string(),
      // Otherwise two agents on hosts of the same name would share Open MPI's segments.
      "OMPI_MCA_btl_vader_backing_directory=" + folders.shared.string(),
  };
  variables.insert(variables.end(), std::begin(own), std::end(own));
  if (!job.mlx_hosts.empty()) variables.push_back("MLX_HOSTFILE=" + mlx_hostfile(folders).string());
  if (members != nullptr)
    for (auto& variable : members->environment_of(rank.rank))
      variables.push_back(std::move(variable));
  return variables;
}

}  // namespace hvdrun
