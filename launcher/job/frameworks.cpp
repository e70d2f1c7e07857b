#include "job/frameworks.hpp"

#include "output/rank_files.hpp"
#include "schedulers/schedulers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

// Returns the end of the hosts with ranks.
auto end_of_ranks(const Placement& placement) {
  return placement.hosts.begin() + static_cast<std::ptrdiff_t>(placement.hosts_with_ranks());
}

bool is_for(const JobSpec& spec, Framework framework) {
  return spec.frameworks.contains(framework);
}

// An address and a port. The address is a name, or a number of IPv4 or IPv6.
struct Endpoint {
  std::string address;
  std::string port;
};

bool is_ipv6(std::string_view address) {
  return address.find(':') != std::string_view::npos;
}

// Returns "n1:29500" or "[fd00::1]:29500".
//
// Source: RFC 3986, section 3.2.2; gRPC, "Name Resolution", takes it as well.
std::string text_of(const Endpoint& endpoint) {
  const bool v6 = is_ipv6(endpoint.address);
  return (v6 ? "[" + endpoint.address + "]" : endpoint.address) + ":" + endpoint.port;
}

std::size_t ports_before_ranks(std::size_t host_index) {
  return host_index == 0 ? kJobPorts : 0;
}

// Returns where every rank listens, in the order of ranks. `framework` is one for which each rank
// has a port.
std::vector<Endpoint> endpoints(const JobSpec& spec, const RankPorts& ports,
                                const Placement& placement, Framework framework) {
  std::vector<Endpoint> endpoints(static_cast<std::size_t>(placement.size));
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) {
    const auto& ranks = placement.hosts[host].ranks;
    std::size_t port = ports_before_ranks(host);
    if (framework == Framework::mlx && is_for(spec, Framework::tensorflow)) port += ranks.size();
    for (const auto& rank : ranks)
      endpoints[static_cast<std::size_t>(rank.rank)] = {ports.addresses[host],
                                                        ports.ports[host][port++]};
  }
  return endpoints;
}

// What torchrun sets beside what every rank has. There is no store of the launcher's: rank 0
// listens on MASTER_PORT, as without this.
//
// Source: PyTorch, torch/distributed/elastic/agent/server/local_elastic_agent.py; its documentation
// of torchrun, "Environment Variables".
void add_torchrun(const JobSpec& spec, const std::string& job_id, int restart_count,
                  const Placement& placement, const RankPlacement& rank,
                  std::vector<RankVariable>& variables) {
  const std::string_view reason = "as torchrun sets it (--for torchrun)";
  const auto add = [&](const char* name, std::string value) {
    variables.push_back({name, std::move(value), reason});
  };
  add("ROLE_NAME", "default");
  add("ROLE_RANK", std::to_string(rank.rank));
  add("ROLE_WORLD_SIZE", std::to_string(placement.size));
  add("TORCHELASTIC_RUN_ID", job_id);
  add("TORCHELASTIC_RESTART_COUNT", std::to_string(restart_count));
  add("TORCHELASTIC_MAX_RESTARTS", std::to_string(spec.max_restarts));
  add("TORCHELASTIC_USE_AGENT_STORE", "False");
  add("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
}

// jax.distributed.initialize() without arguments needs a cluster that it knows, for the numbers of
// ranks have no variable of JAX's. It takes this for Open MPI's mpirun, and the coordinator's
// address from its own variable.
//
// Source: JAX, jax/_src/clusters/ompi_cluster.py, jax/_src/distributed.py.
void add_jax(const RankPorts& ports, std::vector<RankVariable>& variables) {
  const auto address = text_of({ports.addresses[0], ports.ports[0][kJaxPort]});
  variables.push_back({"JAX_COORDINATOR_ADDRESS", address,
                       "where JAX's processes meet, a port that is held (--for jax)"});
  const auto* const scheme = is_ipv6(ports.addresses[0]) ? "tcp6" : "tcp";
  variables.push_back({"OMPI_MCA_orte_hnp_uri", fmt::format("4096.0;{}://{}", scheme, address),
                       "by it JAX takes the ranks from OMPI_COMM_WORLD_* (--for jax)"});
}

// Source: TensorFlow, "Multi-worker training with Keras", TF_CONFIG.
void add_tensorflow(const JobSpec& spec, const RankPorts& ports, const Placement& placement,
                    const RankPlacement& rank, std::vector<RankVariable>& variables) {
  std::vector<std::string> workers;
  for (const auto& endpoint : endpoints(spec, ports, placement, Framework::tensorflow))
    workers.push_back(text_of(endpoint));
  const nlohmann::ordered_json config{{"cluster", {{"worker", workers}}},
                                      {"task", {{"type", "worker"}, {"index", rank.rank}}}};
  variables.push_back(
      {"TF_CONFIG", config.dump(), "the workers of TensorFlow's strategies (--for tensorflow)"});
}

// The ring's MLX_HOSTFILE comes from the agent, which writes mlx_hosts() there.
//
// Source: MLX, mlx/distributed/ring/ring.cpp, mlx/distributed/nccl/nccl.cpp.
void add_mlx(const JobSpec& spec, const RankPorts& ports, const Placement& placement,
             const RankPlacement& rank, std::vector<RankVariable>& variables) {
  const auto first = endpoints(spec, ports, placement, Framework::mlx).front();
  const auto add = [&](const char* name, std::string value, std::string_view reason) {
    variables.push_back({name, std::move(value), reason});
  };
  add("MLX_RANK", std::to_string(rank.rank), "this rank (--for mlx)");
  add("MLX_WORLD_SIZE", std::to_string(placement.size), "number of ranks (--for mlx)");
  add("NCCL_HOST_IP", first.address, "where MLX's ranks meet for NCCL (--for mlx)");
  add("NCCL_PORT", first.port, "a port that is held there (--for mlx)");
}

}  // namespace

std::size_t count_ports(const JobSpec& spec, const Placement& placement, std::size_t host_index) {
  std::size_t lists = 0;
  for (const auto framework : {Framework::tensorflow, Framework::mlx})
    if (is_for(spec, framework)) ++lists;
  return ports_before_ranks(host_index) + lists * placement.hosts[host_index].ranks.size();
}

std::vector<RankVariable> torchrun_variables(const JobSpec& spec, const std::string& address,
                                             const std::string& port, const Placement& placement,
                                             std::size_t host_index) {
  if (!spec.starts_torchrun) return {};
  constexpr std::string_view kReason = "for torchrun, once on each host";
  return {{"PET_NNODES", std::to_string(placement.hosts_with_ranks()), kReason},
          {"PET_NODE_RANK", std::to_string(host_index), kReason},
          {"PET_MASTER_ADDR", address, kReason},
          {"PET_MASTER_PORT", port, kReason}};
}

std::vector<RankVariable> framework_variables(const JobSpec& spec, const RankPorts& ports,
                                              const std::string& job_id, int restart_count,
                                              const Placement& placement,
                                              const RankPlacement& rank) {
  std::vector<RankVariable> variables;
  if (is_for(spec, Framework::torchrun))
    add_torchrun(spec, job_id, restart_count, placement, rank, variables);
  if (is_for(spec, Framework::jax)) add_jax(ports, variables);
  if (is_for(spec, Framework::tensorflow)) add_tensorflow(spec, ports, placement, rank, variables);
  if (is_for(spec, Framework::mlx)) add_mlx(spec, ports, placement, rank, variables);
  return variables;
}

std::optional<RankVariable> jax_devices(const Environment& caller, const JobSpec& spec,
                                        const Placement& placement, const RankPlacement& rank) {
  const auto* scheduler = scheduler_of(caller);
  const bool knows_ranks =
      is_for(spec, Framework::jax) || (scheduler != nullptr && scheduler->describes_ranks());
  if (!rank.device || !knows_ranks) return std::nullopt;
  const bool drives_all = std::all_of(placement.hosts.begin(), end_of_ranks(placement),
                                      [](const auto& host) { return host.ranks.size() == 1; });
  if (!drives_all || rank.devices < 2)
    return RankVariable{"JAX_LOCAL_DEVICE_IDS", std::to_string(*rank.device),
                        "the rank's device among those that it sees, for JAX"};
  std::string all = "0";
  for (int device = 1; device < rank.devices; ++device) all += "," + std::to_string(device);
  return RankVariable{"JAX_LOCAL_DEVICE_IDS", std::move(all),
                      "all devices, for JAX, since each host has one rank"};
}

std::optional<RankVariable> torch_error_file(const Environment& caller, const JobSpec& spec,
                                             const Placement& placement,
                                             const RankPlacement& rank) {
  constexpr auto* kName = "TORCHELASTIC_ERROR_FILE";
  if (!is_for(spec, Framework::torchrun) || spec.output.directory.empty() ||
      find_variable(caller, kName) != nullptr)
    return std::nullopt;
  std::error_code error;  // then the path stays relative
  const auto folder = std::filesystem::absolute(spec.output.directory, error);
  const auto file = folder / RankFiles::folder_name(rank.rank, placement.size) / "error.json";
  return RankVariable{kName, file.string(),
                      "where @record writes the rank's exception (--for torchrun)"};
}

std::optional<RankVariable> proxy_exceptions(const Environment& caller, const JobSpec& spec,
                                             const RankPorts& ports, const Placement& placement) {
  const auto value_of = [&](const char* name) {
    const auto* const value = find_variable(caller, name);
    std::string found = value != nullptr ? *value : "";
    for (const auto& change : spec.environment)
      if (change.value && change.name == name) found = *change.value;
    return found;
  };
  const auto has_value = [&](const char* name) { return !value_of(name).empty(); };
  if (std::ranges::none_of(std::array{"grpc_proxy", "https_proxy", "http_proxy"}, has_value))
    return std::nullopt;
  std::vector<std::string> names;
  if (has_value("no_grpc_proxy"))
    names.push_back(value_of("no_grpc_proxy"));
  else if (has_value("no_proxy"))
    names.push_back(value_of("no_proxy"));
  const auto add_once = [&names](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const auto& address : ports.addresses) add_once(address);
  for (const auto& host : placement.hosts) add_once(host.host);
  return RankVariable{"no_grpc_proxy", fmt::format("{}", fmt::join(names, ",")),
                      "ranks connect without the proxy, in programs of JAX and TensorFlow"};
}

std::string mlx_hosts(const JobSpec& spec, const RankPorts& ports, const Placement& placement) {
  if (!is_for(spec, Framework::mlx)) return {};
  nlohmann::json list = nlohmann::json::array();
  for (const auto& endpoint : endpoints(spec, ports, placement, Framework::mlx))
    list.push_back(nlohmann::json::array({endpoint.address + ":" + endpoint.port}));
  return list.dump();
}

}  // namespace hvdrun
