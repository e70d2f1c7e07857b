#include "job/rank_environment.hpp"

#include "common/agent_messages.hpp"
#include "common/net/address.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "job/host_addresses.hpp"
#include "resources/chosen_devices.hpp"
#include "resources/interface_choice.hpp"
#include "schedulers/schedulers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

// Variables by which a launcher describes one process. If ranks inherited them, they would take an
// outer job's values for their own: those of mpirun around a batch script, or of another hvdrun.
// Schedulers have more (describes_process).
constexpr auto kForeignPrefixes =
    std::to_array<std::string_view>({"PMIX_", "PMI_", "OMPI_COMM_", "OMPI_MCA_orte_",
                                     "OMPI_MCA_ess", "ORTE_", "PRTE_", "OMPI_UNIVERSE"});
constexpr auto kForeignNames = std::to_array<std::string_view>({
    HVD_ENV_STATUS,
    HVD_ENV_NOTICE_FD,
    HVD_ENV_SHM_DIR,
    HVD_ENV_PORT,
    HVD_ENV_LOCAL_DEVICE,
    HVD_ENV_RESTART_COUNT,
    HVD_ENV_JOB_ID,
    HVD_ENV_JOB_KEY,
    common::kAgentVariable,
    common::kMemberVariable,
    common::kNewcomerVariable,
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
});
constexpr std::string_view kUserSettings = "PMIX_MCA_";

// Variables that are valid on one host only, or for one login. Those that choose devices are, too:
// agents have what the user's choice means on their hosts (resources/chosen_devices.hpp).
// Schedulers have more.
constexpr auto kHostVariables = std::to_array<std::string_view>({
    "SLINGSHOT_VNIS",
    "SLINGSHOT_DEVICES",
    "SLINGSHOT_SVC_IDS",
    "SLINGSHOT_TCS",
    "HOSTNAME",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "TMPDIR",
});

bool is_foreign(std::string_view name) {
  if (name.starts_with(kUserSettings)) return false;
  return std::any_of(kForeignPrefixes.begin(), kForeignPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(kForeignNames.begin(), kForeignNames.end(), name) != kForeignNames.end() ||
         describes_process(name);
}

// The variables that take names of network interfaces, separated by commas: of libhvd, torch's gloo
// and Open MPI. Source: the documentation of Gloo and Open MPI.
constexpr std::array kNetworkVariables{HVD_ENV_INTERFACE, "GLOO_SOCKET_IFNAME",
                                       "OMPI_MCA_btl_tcp_if_include"};
// The one that takes the forms of --network-interface.
constexpr const char* kNcclNetwork = "NCCL_SOCKET_IFNAME";

// Returns a time in seconds: "0.25".
std::string decimal_seconds(std::chrono::milliseconds time) {
  return fmt::format("{}", static_cast<double>(time.count()) / 1000);
}

// Adds the options of libhvd's collectives, which override the caller's environment.
void add_collectives(const CollectiveSpec& spec, Environment& variables) {
  if (spec.fusion_bytes) variables[HVD_ENV_FUSION_THRESHOLD] = std::to_string(*spec.fusion_bytes);
  if (spec.cache_capacity) variables[HVD_ENV_CACHE_CAPACITY] = std::to_string(*spec.cache_capacity);
  if (spec.autotune) variables[HVD_ENV_AUTOTUNE] = *spec.autotune ? "1" : "0";
  if (spec.stall_check) variables[HVD_ENV_STALL_CHECK_DISABLE] = *spec.stall_check ? "0" : "1";
  if (spec.stall_warning)
    variables[HVD_ENV_STALL_CHECK_TIME] = decimal_seconds(*spec.stall_warning);
  if (spec.stall_shutdown)
    variables[HVD_ENV_STALL_SHUTDOWN_TIME] = decimal_seconds(*spec.stall_shutdown);
}

// Returns the PYTHONPATH of --horovod. It has no empty entry, which would be the current directory.
std::string python_path(const JobSpec& spec, const std::string* users) {
  std::string path = spec.horovod_folder.string();
  if (users != nullptr && !users->empty()) path += ":" + *users;
  if (!spec.hvd_folder.empty()) path += ":" + spec.hvd_folder.string();
  return path;
}

// Returns what all ranks share, by name: the caller's variables, without a reason, and those of
// hvdrun, with one.
std::map<std::string, RankVariable> shared_variables(const Environment& caller, const JobSpec& spec,
                                                     const std::vector<std::string>& interfaces) {
  std::map<std::string, RankVariable> shared;
  const auto set = [&](const std::string& name, const std::string& value, std::string_view reason) {
    shared[name] = {name, value, reason};
  };
  const auto set_if_missing = [&](const std::string& name, const std::string& value,
                                  std::string_view reason) {
    if (!shared.contains(name)) set(name, value, reason);
  };
  for (const auto& [name, value] : caller)
    if (!is_foreign(name)) set(name, value, "");
  for (const auto* scheduler : schedulers())
    for (const auto& [name, value, reason] : scheduler->variables_here(caller))
      set(name, value, reason);
  set_if_missing("PYTHONUNBUFFERED", "1", "Python prints each line at once");
  // Only oneCCL reads these. It takes PMIX_RANK as a sign of mpirun, and would ask that for more.
  // Source: oneCCL, src/common/env/env_parser.cpp.
  set_if_missing("CCL_PROCESS_LAUNCHER", "torchrun",
                 "oneCCL reads LOCAL_RANK and LOCAL_WORLD_SIZE");
  set_if_missing("CCL_ATL_TRANSPORT", "ofi", "oneCCL's ranks do not meet by MPI");
  if (const auto& choice = spec.remote.network_interface; !choice.empty()) {
    const auto names = interfaces.empty() ? choice : fmt::format("{}", fmt::join(interfaces, ","));
    for (const char* name : kNetworkVariables) set_if_missing(name, names, "--network-interface");
    set_if_missing(kNcclNetwork, choice, "--network-interface");
  }
  Environment collectives;
  add_collectives(spec.collectives, collectives);
  for (const auto& [name, value] : collectives) set(name, value, "an option for collectives");
  if (const auto& log = spec.collectives.autotune_log; !log.empty())
    set(HVD_ENV_AUTOTUNE_LOG, (spec.working_directory / log).string(), "--autotune-log-file");
  if (!spec.timeline_file.empty())
    set(HVD_ENV_TIMELINE, (spec.working_directory / spec.timeline_file).string(),
        "--timeline-filename");
  for (const auto& [name, value] : spec.accelerate)
    set(name, value, "what accelerate config has chosen (--for accelerate)");
  for (const auto& change : spec.environment) {
    if (change.value)
      set(change.name, *change.value, "-x");
    else if (const auto* value = find_variable(caller, change.name))
      set(change.name, *value, "-x passes it on");
  }
  if (!spec.horovod_folder.empty()) {
    const auto users = shared.find("PYTHONPATH");
    set("PYTHONPATH", python_path(spec, users == shared.end() ? nullptr : &users->second.value),
        "--horovod");
  }
  return shared;
}

const std::string* value_of_user(const JobSpec& spec, std::string_view name) {
  for (const auto& change : spec.environment)
    if (change.value && change.name == name) return &*change.value;
  return nullptr;
}

void append_variable(std::string& text, const RankVariable& variable) {
  text += fmt::format("{}={}  # {}\n", variable.name, printable(variable.value), variable.reason);
}

// Returns the variables that only the agent knows; they override all others.
std::vector<RankVariable> variables_of_agent(const JobSpec& spec, const Placement& placement) {
  std::vector<RankVariable> variables{
      {HVD_ENV_STATUS, "<file>@<offset>", "the rank's status page"},
      {HVD_ENV_NOTICE_FD, "<number>", "the descriptor that tells of notices in it"},
      {HVD_ENV_SHM_DIR, "<folder>", "a folder in shared memory, removed after the job"}};
  if (spec.frameworks.contains(Framework::mlx))
    variables.push_back({"MLX_HOSTFILE", "<file>", "the addresses of MLX's ring (--for mlx)"});
  if (placement.hosts.size() > 1 && spec.remote.network_interface.empty())
    variables.push_back({"GLOO_SOCKET_IFNAME", "<interface>",
                         "only on a host whose /etc/hosts has its own name for loopback"});
  if (spec.pmix != PmixMode::off)
    for (const char* name : {"PMIX_*", "OMPI_MCA_*"})
      variables.push_back({name, "<...>", "how PMIx and Open MPI find the agent's PMIx server"});
  return variables;
}

// Adds the variables by which Open MPI's ranks give up their core while they wait. Otherwise a
// small collective takes milliseconds. The first is enough for Open MPI 4, whose mpirun sets it in
// the same case; the second is for Open MPI 5.
void add_yielding(const Environment& caller, std::vector<RankVariable>& variables) {
  for (const char* name : {"OMPI_MCA_mpi_oversubscribe", "OMPI_MCA_mpi_yield_when_idle"})
    if (find_variable(caller, name) == nullptr)
      variables.push_back({name, "1", "there are more ranks here than cores"});
}

std::vector<std::string> interfaces_to_show(const JobSpec& spec, const Plan& plan,
                                            const std::string& name,
                                            const std::vector<std::string>& own_interfaces) {
  const auto host = std::ranges::find(plan.allocation.hosts, name, &Host::name);
  if (host->is_this_machine) return own_interfaces;
  if (is_plain_choice(spec.remote.network_interface)) return {};
  return {"<those that it leaves there>"};
}

RankPorts ports_to_show(const JobSpec& spec, const Plan& plan) {
  RankPorts ports;
  const auto& placement = plan.placement;
  for (std::size_t index = 0; index < placement.hosts.size(); ++index) {
    const auto& hosts = plan.allocation.hosts;
    const auto host = std::ranges::find(hosts, placement.hosts[index].host, &Host::name);
    ports.addresses.push_back(placement.hosts.size() == 1 ? "127.0.0.1" : address_name(*host));
    ports.ports.emplace_back(count_ports(spec, placement, index), "<port>");
  }
  ports.number = placement.hosts.size() == 1 ? "127.0.0.1" : "<address>";
  return ports;
}

}  // namespace

std::vector<std::string> job_environment(const Environment& caller, const JobSpec& spec,
                                         const std::vector<std::string>& interfaces) {
  std::vector<std::string> variables;
  for (const auto& [name, variable] : shared_variables(caller, spec, interfaces))
    variables.push_back(name + "=" + variable.value);
  return variables;
}

std::vector<std::string> leave_host_variables(const JobSpec& spec,
                                              std::vector<std::string>& variables) {
  std::set<std::string, std::less<>> names(kHostVariables.begin(), kHostVariables.end());
  for (const auto* scheduler : schedulers()) {
    const auto more = scheduler->variables().of_host;
    names.insert(more.begin(), more.end());
  }
  names.insert(kGivenDeviceVariables.begin(), kGivenDeviceVariables.end());
  for (const auto& variable : variables)
    if (const auto name = variable.substr(0, variable.find('=')); is_device_variable(name))
      names.insert(name);
  for (const auto& change : spec.environment) names.erase(change.name);
  std::erase_if(variables, [&](const std::string& variable) {
    return names.contains(std::string_view(variable).substr(0, variable.find('=')));
  });
  return {names.begin(), names.end()};
}

HoldPortsMessage ports_to_hold(const JobSpec& spec, const Placement& placement,
                               std::size_t host_index) {
  HoldPortsMessage wanted;
  wanted.count = static_cast<int>(count_ports(spec, placement, host_index));
  if (const auto* port = value_of_user(spec, "MASTER_PORT"))
    std::from_chars(port->data(), port->data() + port->size(), wanted.master_port);
  return wanted;
}

JobIdentity with_ports(JobIdentity identity, RankPorts ports, const JobSpec& spec) {
  const auto choose = [&](std::string_view name, const std::string& ours) {
    const auto* users = value_of_user(spec, name);
    return users != nullptr ? *users : ours;
  };
  identity.master_address = choose("MASTER_ADDR", ports.addresses[0]);
  // Only a number is known to be an address of what the user names.
  const bool is_number = common::parse_address(identity.master_address).has_value();
  identity.launch_address = is_number ? identity.master_address : ports.number;
  identity.master_port = choose("MASTER_PORT", ports.ports[0][kMasterPort]);
  identity.rendezvous_port = choose(HVD_ENV_PORT, ports.ports[0][kRendezvousPort]);
  identity.jax_port = choose("JAX_COORDINATOR_PORT", ports.ports[0][kJaxPort]);
  identity.ports = std::move(ports);
  return identity;
}

std::vector<RankVariable> rank_environment(const Environment& caller, const JobSpec& spec,
                                           const JobIdentity& job, const Placement& placement,
                                           std::size_t host_index, const RankPlacement& rank) {
  const auto& host = placement.hosts[host_index];
  std::vector<RankVariable> variables;
  const auto add = [&](std::initializer_list<const char*> names, const std::string& value,
                       std::string_view reason) {
    for (const char* name : names) variables.push_back({name, value, reason});
  };
  // RANK and its kin: torch.distributed, "env://", and torchrun. NODE_RANK: Lightning and many
  // scripts. LOCAL_SIZE: DeepSpeed's collectives in shared memory. OMPI_COMM_WORLD_NODE_RANK: Open
  // MPI's node rank is the rank among the processes of its node.
  add({HVD_ENV_RANK, "RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK"}, std::to_string(rank.rank),
      "this rank");
  add({HVD_ENV_SIZE, "WORLD_SIZE", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE"},
      std::to_string(placement.size), "number of ranks");
  add({HVD_ENV_LOCAL_RANK, "LOCAL_RANK", "HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_NODE_RANK"},
      std::to_string(rank.local_rank), "rank among those of this host");
  add({HVD_ENV_LOCAL_SIZE, "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "HOROVOD_LOCAL_SIZE",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      std::to_string(host.ranks.size()), "number of ranks of this host");
  add({HVD_ENV_NODE_RANK, "GROUP_RANK", "NODE_RANK"}, std::to_string(host_index),
      "index of this host");
  add({HVD_ENV_NODE_COUNT, "GROUP_WORLD_SIZE"}, std::to_string(placement.hosts_with_ranks()),
      "number of hosts");
  add({"HOROVOD_CROSS_RANK"}, std::to_string(rank.cross_rank),
      "index of this host among those that have this local rank");
  add({"HOROVOD_CROSS_SIZE"}, std::to_string(rank.cross_size), "number of those hosts");
  add({HVD_ENV_HOSTNAME, "HOROVOD_HOSTNAME"}, host.host, "this host");
  add({HVD_ENV_JOB_ID}, job.id, "the job, the same over its restarts");
  add({HVD_ENV_JOB_KEY}, job.key, "the secret that connections between ranks prove");
  add({HVD_ENV_RESTART_COUNT}, std::to_string(job.restart_count), "restarts before this start");
  add({"MASTER_ADDR"}, job.master_address, "rank 0's host, where torch's ranks meet");
  add({"MASTER_PORT"}, job.master_port, "a port that is held there for the program");
  add({HVD_ENV_PORT}, job.rendezvous_port, "another one, for libhvd without PMIx");
  add({"JAX_COORDINATOR_PORT"}, job.jax_port,
      "another one, for JAX, which would take the same for all programs in a SLURM job");
  if (rank.device)
    add({HVD_ENV_LOCAL_DEVICE}, std::to_string(*rank.device), "the GPU for this rank");
  if (rank.visible_devices)
    add({host.gpu_variables.visible.c_str()}, *rank.visible_devices,
        "the GPUs that this rank sees");
  if (rank.in_pci_order)
    add({host.gpu_variables.order.c_str()}, host.gpu_variables.pci_order,
        "the order of those numbers, as the GPUs differ");
  auto others = framework_variables(spec, job.ports, job.id, job.restart_count, placement, rank);
  std::ranges::move(
      torchrun_variables(spec, job.master_address, job.master_port, placement, host_index),
      std::back_inserter(others));
  if (const auto* scheduler = scheduler_of(caller))
    std::ranges::move(scheduler->rank_variables({caller, placement, host_index, rank, job.id,
                                                 job.launch_address, spec.map_by == MapBy::node}),
                      std::back_inserter(others));
  if (auto devices = jax_devices(caller, spec, placement, rank))
    others.push_back(std::move(*devices));
  if (host.shares_cores) add_yielding(caller, others);
  if (auto file = torch_error_file(caller, spec, placement, rank))
    others.push_back(std::move(*file));
  if (auto exceptions = proxy_exceptions(caller, spec, job.ports, placement))
    others.push_back(std::move(*exceptions));
  for (auto& variable : others)
    if (value_of_user(spec, variable.name) == nullptr) variables.push_back(std::move(variable));
  return variables;
}

Result<std::string> environment_text(const JobSpec& spec, const Plan& plan,
                                     const Environment& caller,
                                     const std::vector<std::string>& own_interfaces) {
  if (!plan.placement.to_ask.empty())
    return fail(
        "--print-env: where ranks go depends on how many slots the hosts have, and they are not "
        "asked; say -H host:slots",
        kExitUsage);
  const auto& only = spec.output.only_ranks;
  const int wanted = only && !only->empty() ? only->lowest() : 0;
  const JobIdentity identity = with_ports({"<new for each job>", "<new for each start>", {}, {}},
                                          ports_to_show(spec, plan), spec);
  std::string text;
  std::vector<RankVariable> own;
  std::vector<std::string> interfaces;
  for (std::size_t host = 0; host < plan.placement.hosts.size(); ++host)
    for (const auto& rank : plan.placement.hosts[host].ranks)
      if (rank.rank == wanted) {
        text = fmt::format("# rank {} on {}: the caller's environment, and this\n", wanted,
                           plan.placement.hosts[host].host);
        own = rank_environment(caller, spec, identity, plan.placement, host, rank);
        interfaces =
            interfaces_to_show(spec, plan, plan.placement.hosts[host].host, own_interfaces);
      }
  std::ranges::move(variables_of_agent(spec, plan.placement), std::back_inserter(own));
  const auto shared = shared_variables(caller, spec, interfaces);
  const auto is_own = [&](const std::string& name) {
    return std::ranges::find(own, name, &RankVariable::name) != own.end();
  };
  for (const auto& variable : own) append_variable(text, variable);
  for (const auto& [name, variable] : shared)
    if (!variable.reason.empty() && !is_own(name)) append_variable(text, variable);
  for (const auto& [name, value] : caller)
    if (!shared.contains(name) && !is_own(name))
      text += fmt::format("# {} is removed: it describes the process that called hvdrun\n", name);
  return text;
}

}  // namespace hvdrun
