// The variables by which frameworks other than torch find their ranks: those of --for.
// Pure functions.
#pragma once

#include "base/environment.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/rank_variable.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Where ranks listen.
struct RankPorts {
  std::vector<std::string> addresses;           // by host
  std::vector<std::vector<std::string>> ports;  // that the host holds, by host; see ports_to_hold()
  std::string number = {};                      // the first host's address as a number
};

// The order of the ports that a host is asked to hold: on rank 0's host MASTER_PORT, HVD_PORT and
// JAX's; on every host one for each rank and each framework that needs it.
inline constexpr std::size_t kMasterPort = 0;
inline constexpr std::size_t kRendezvousPort = 1;
inline constexpr std::size_t kJaxPort = 2;
inline constexpr std::size_t kJobPorts = 3;
std::size_t count_ports(const JobSpec& spec, const Placement& placement, std::size_t host_index);

// Returns the variables by which torchrun, once on each host, finds its host's number and the
// first host. Empty for other programs.
//
// Source: PyTorch, torch/distributed/run.py and torch/distributed/argparse_util.py.
std::vector<RankVariable> torchrun_variables(const JobSpec& spec, const std::string& address,
                                             const std::string& port, const Placement& placement,
                                             std::size_t host_index);

// Returns the variables of --for. The source for each framework is at its function in
// frameworks.cpp.
std::vector<RankVariable> framework_variables(const JobSpec& spec, const RankPorts& ports,
                                              const std::string& job_id, int restart_count,
                                              const Placement& placement,
                                              const RankPlacement& rank);

// Returns the devices that JAX is to use, with --for jax and in the job of a scheduler that
// describes ranks. Without it, JAX takes the one whose number is the local rank: one GPU if there
// is one rank on each host, and a wrong one if the rank sees only its own. The only rank of a host
// drives all of its GPUs, if that is so on every host. Returns nullopt if the rank has no GPU.
//
// Source: JAX, jax/_src/distributed.py, jax/_src/clusters/cluster.py.
std::optional<RankVariable> jax_devices(const Environment& caller, const JobSpec& spec,
                                        const Placement& placement, const RankPlacement& rank);

// Returns the file into which PyTorch's @record writes a rank's exception, with --for torchrun:
// beside the rank's output. Returns nullopt without --output-filename, and if the caller has named
// a file.
//
// Source: PyTorch, torch/distributed/elastic/multiprocessing/errors/error_handler.py.
std::optional<RankVariable> torch_error_file(const Environment& caller, const JobSpec& spec,
                                             const Placement& placement, const RankPlacement& rank);

// Returns no_grpc_proxy, by which gRPC connects ranks directly although one of its variables names
// a proxy. JAX and TensorFlow would hang otherwise. Its value is that of the caller's no_grpc_proxy
// or no_proxy, and the job's hosts. Returns nullopt if no variable names a proxy.
//
// Source: gRPC, doc/environment_variables.md.
std::optional<RankVariable> proxy_exceptions(const Environment& caller, const JobSpec& spec,
                                             const RankPorts& ports, const Placement& placement);

// Returns the file that MLX's ring reads: for each rank its addresses, as JSON. Empty without --for
// mlx.
std::string mlx_hosts(const JobSpec& spec, const RankPorts& ports, const Placement& placement);

}  // namespace hvdrun
