#include "resources/login_node.hpp"

#include <algorithm>
#include <array>
#include <system_error>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

// Where SLURM's packages, and a host without a file of its own ("configless"), have it.
constexpr std::array kConfigurations = {"etc/slurm/slurm.conf", "etc/slurm-llnl/slurm.conf",
                                        "run/slurm/conf/slurm.conf", "opt/slurm/etc/slurm.conf",
                                        "usr/local/etc/slurm.conf"};
// Of a slurmd that runs: its file, or the cgroup of systemd's service.
constexpr std::array kDaemons = {"run/slurmd.pid",
                                 "run/slurm/slurmd.pid",
                                 "var/run/slurmd.pid",
                                 "var/run/slurm/slurmd.pid",
                                 "sys/fs/cgroup/system.slice/slurmd.service",
                                 "sys/fs/cgroup/systemd/system.slice/slurmd.service"};

bool has_any(const fs::path& root, const auto& names) {
  return std::ranges::any_of(names, [&](const char* name) {
    std::error_code ignored;
    return fs::exists(root / name, ignored);
  });
}

}  // namespace

bool is_login_node(const Environment& environment, const fs::path& root) {
  std::error_code ignored;
  const auto* file = find_variable(environment, "SLURM_CONF");
  const bool is_named = file != nullptr && fs::exists(*file, ignored);
  return (is_named || has_any(root, kConfigurations)) && !has_any(root, kDaemons);
}

Result<std::string> check_login_node(const JobSpec& spec, const Allocation& allocation,
                                     const Environment& environment, const fs::path& root) {
  if (allocation.from != HostSource::this_machine || spec.login_node == LoginNode::allow ||
      !is_login_node(environment, root))
    return std::string();
  if (spec.login_node == LoginNode::refuse)
    return fail(
        "ranks may not run on this login node (--login-node refuse): hvdrun sbatch submits a job, "
        "hvdrun salloc gets hosts for this command",
        kExitUsage);
  return std::string(
      "without an allocation the ranks run on this host, which runs no jobs of SLURM: a login "
      "node? hvdrun sbatch submits a job, hvdrun salloc gets hosts");
}

}  // namespace hvdrun
