// The variables by which frameworks find their ranks where torch's do not serve: SLURM's, and those
// that --for asks for. Pure functions.
#pragma once

#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct RankVariable {
  std::string name;
  std::string value;
  std::string_view reason;  // for --print-env; of a variable that is the caller's: empty
};

// Where ranks listen, as their variables say it.
struct RankPorts {
  std::vector<std::string> addresses;           // of each host
  std::vector<std::vector<std::string>> ports;  // that each host holds; see ports_to_hold()
};

// The ports that a host is asked to hold, in this order: on rank 0's host MASTER_PORT, HVD_PORT
// and JAX's; on every host one for each rank and each framework that needs it.
inline constexpr std::size_t kMasterPort = 0;
inline constexpr std::size_t kRendezvousPort = 1;
std::size_t count_ports(const JobSpec& spec, const Placement& placement, std::size_t host_index);

// What a SLURM step of the job's ranks would be told by srun: of these hosts and ranks, not of the
// allocation. SLURM_NTASKS_PER_NODE only where all hosts have equally many ranks, as its meaning is
// that. No SLURM_STEP_ID: there is no such step that scontrol could describe.
//
// Source: srun(1), "output environment variables".
std::vector<RankVariable> slurm_variables(const Placement& placement, std::size_t host_index,
                                          const RankPlacement& rank);

// What --for asks for. Each function behind it names its source.
std::vector<RankVariable> framework_variables(const JobSpec& spec, const RankPorts& ports,
                                              const std::string& job_id, int restart_count,
                                              const Placement& placement,
                                              const RankPlacement& rank);

// The file that MLX's ring reads: for each rank its addresses, as JSON. Empty without --for mlx.
std::string mlx_hosts(const JobSpec& spec, const RankPorts& ports, const Placement& placement);

}  // namespace hvdrun
