#include "job/launch.hpp"

#include "job/stalls.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <hvd_contract/environment.h>

namespace hvdrun {
namespace {

// What a launcher says about one process. Passed on, ranks would take an outer job's words for
// theirs: that of mpirun around a batch script, of srun, or of another hvdrun.
constexpr std::array<std::string_view, 12> kForeignPrefixes{
    "PMIX_", "PMI_",          "OMPI_COMM_",  "OMPI_MCA_orte_", "OMPI_MCA_ess", "ORTE_",
    "PRTE_", "OMPI_UNIVERSE", "SLURM_STEP_", "SLURM_CPU_BIND", "SLURM_SRUN_",  "SLURM_MPI_",
};
constexpr std::array<std::string_view, 22> kForeignNames{
    "SLURM_STEPID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_DISTRIBUTION",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    HVD_ENV_STATUS,
    HVD_ENV_NOTICE_FD,
    HVD_ENV_SHM_DIR,
    HVD_ENV_PORT,
    HVD_ENV_LOCAL_DEVICE,
    HVD_ENV_RESTART_COUNT,
    HVD_ENV_JOB_ID,
    HVD_ENV_JOB_KEY,
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
};
constexpr std::string_view kUserSettings = "PMIX_MCA_";

// True on one host only, or for one login.
constexpr std::array<std::string_view, 22> kHostVariables{
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURMD_NODENAME",
    "SLURM_TOPOLOGY_ADDR",
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
};

bool is_foreign(std::string_view name) {
  if (name.starts_with(kUserSettings)) return false;
  return std::any_of(kForeignPrefixes.begin(), kForeignPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(kForeignNames.begin(), kForeignNames.end(), name) != kForeignNames.end();
}

// Who speaks to other hosts, and takes names of interfaces with commas: libhvd, NCCL, torch's gloo,
// Open MPI. (NCCL's and Gloo's and Open MPI's documentation.)
constexpr std::array kNetworkVariables{HVD_ENV_INTERFACE, "NCCL_SOCKET_IFNAME",
                                       "GLOO_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include"};

// "0.25": what parse_duration has read, in seconds.
std::string decimal_seconds(std::chrono::milliseconds time) {
  return fmt::format("{}", static_cast<double>(time.count()) / 1000);
}

// The options of libhvd's collectives, over what the caller's environment says of them.
void add_collectives(const CollectiveSpec& spec, Environment& variables) {
  if (spec.fusion_bytes) variables[HVD_ENV_FUSION_THRESHOLD] = std::to_string(*spec.fusion_bytes);
  if (spec.cache_capacity) variables[HVD_ENV_CACHE_CAPACITY] = std::to_string(*spec.cache_capacity);
  if (spec.stall_check) variables[HVD_ENV_STALL_CHECK_DISABLE] = *spec.stall_check ? "0" : "1";
  if (spec.stall_warning)
    variables[HVD_ENV_STALL_CHECK_TIME] = decimal_seconds(*spec.stall_warning);
  if (spec.stall_shutdown)
    variables[HVD_ENV_STALL_SHUTDOWN_TIME] = decimal_seconds(*spec.stall_shutdown);
}

// PYTHONPATH of --horovod. An empty entry would be the current directory.
std::string python_path(const JobSpec& spec, const std::string* users) {
  std::string path = spec.horovod_folder.string();
  if (users != nullptr && !users->empty()) path += ":" + *users;
  if (!spec.hvd_folder.empty()) path += ":" + spec.hvd_folder.string();
  return path;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

void add_slurm(const Environment& caller, const Placement& placement, std::size_t host_index,
               const RankPlacement& rank, Variables& variables) {
  if (find_variable(caller, "SLURM_JOB_ID") == nullptr) return;
  const auto size = std::to_string(placement.size);
  variables.emplace_back("SLURM_PROCID", std::to_string(rank.rank));
  variables.emplace_back("SLURM_LOCALID", std::to_string(rank.local_rank));
  variables.emplace_back("SLURM_NODEID", std::to_string(host_index));
  variables.emplace_back("SLURM_NTASKS", size);
  variables.emplace_back("SLURM_NPROCS", size);
}

}  // namespace

std::vector<std::string> job_environment(const Environment& caller, const JobSpec& spec) {
  Environment shared;
  for (const auto& [name, value] : caller)
    if (!is_foreign(name)) shared.emplace(name, value);
  shared.try_emplace("PYTHONUNBUFFERED", "1");
  if (const auto& network = spec.remote.network_interface; !network.empty())
    for (const char* name : kNetworkVariables) shared.try_emplace(name, network);
  add_collectives(spec.collectives, shared);
  if (!spec.timeline_file.empty())
    shared[HVD_ENV_TIMELINE] = (spec.working_directory / spec.timeline_file).string();
  for (const auto& change : spec.environment) {
    if (change.value)
      shared[change.name] = *change.value;
    else if (const auto* value = find_variable(caller, change.name))
      shared[change.name] = *value;
  }
  if (!spec.horovod_folder.empty())
    shared["PYTHONPATH"] = python_path(spec, find_variable(shared, "PYTHONPATH"));
  std::vector<std::string> variables;
  variables.reserve(shared.size());
  for (const auto& [name, value] : shared) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<std::string> leave_host_variables(const JobSpec& spec,
                                              std::vector<std::string>& variables) {
  std::vector<std::string> names;
  for (const std::string_view name : kHostVariables)
    if (std::none_of(spec.environment.begin(), spec.environment.end(),
                     [&](const auto& change) { return change.name == name; }))
      names.emplace_back(name);
  std::erase_if(variables, [&](const std::string& variable) {
    const auto name = std::string_view(variable).substr(0, variable.find('='));
    return std::find(names.begin(), names.end(), name) != names.end();
  });
  return names;
}

JobIdentity with_master_of_user(JobIdentity identity, const JobSpec& spec) {
  for (const auto& change : spec.environment) {
    if (change.value && change.name == "MASTER_ADDR") identity.master_address = *change.value;
    if (change.value && change.name == "MASTER_PORT") identity.master_port = *change.value;
  }
  return identity;
}

Variables rank_environment(const Environment& caller, const JobIdentity& job,
                           const Placement& placement, std::size_t host_index,
                           const RankPlacement& rank) {
  const auto& host = placement.hosts[host_index];
  const auto number = [](auto value) { return std::to_string(value); };
  const auto global = number(rank.rank);
  const auto size = number(placement.size);
  const auto local = number(rank.local_rank);
  const auto local_size = number(host.ranks.size());
  const auto node = number(host_index);
  const auto nodes = number(placement.hosts.size());
  Variables variables{
      {HVD_ENV_RANK, global},
      {HVD_ENV_SIZE, size},
      {HVD_ENV_LOCAL_RANK, local},
      {HVD_ENV_LOCAL_SIZE, local_size},
      {HVD_ENV_NODE_RANK, node},
      {HVD_ENV_NODE_COUNT, nodes},
      {HVD_ENV_HOSTNAME, host.host},
      {HVD_ENV_JOB_ID, job.id},
      {HVD_ENV_JOB_KEY, job.key},
      {HVD_ENV_RESTART_COUNT, number(job.restart_count)},
      // torch.distributed, "env://" and torchrun's documentation.
      {"RANK", global},
      {"WORLD_SIZE", size},
      {"LOCAL_RANK", local},
      {"LOCAL_WORLD_SIZE", local_size},
      {"GROUP_RANK", node},
      {"GROUP_WORLD_SIZE", nodes},
      {"MASTER_ADDR", job.master_address},
      {"MASTER_PORT", job.master_port},
      {"HOROVOD_RANK", global},
      {"HOROVOD_SIZE", size},
      {"HOROVOD_LOCAL_RANK", local},
      {"HOROVOD_LOCAL_SIZE", local_size},
      {"HOROVOD_CROSS_RANK", number(rank.cross_rank)},
      {"HOROVOD_CROSS_SIZE", number(rank.cross_size)},
      {"HOROVOD_HOSTNAME", host.host},
      {"OMPI_COMM_WORLD_RANK", global},
      {"OMPI_COMM_WORLD_SIZE", size},
      {"OMPI_COMM_WORLD_LOCAL_RANK", local},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", local_size},
      {"OMPI_COMM_WORLD_NODE_RANK", local},  // the rank among processes on the node
  };
  if (rank.device) variables.emplace_back(HVD_ENV_LOCAL_DEVICE, number(*rank.device));
  if (rank.visible_devices) variables.emplace_back("CUDA_VISIBLE_DEVICES", *rank.visible_devices);
  add_slurm(caller, placement, host_index, rank, variables);
  return variables;
}

std::vector<int> input_receivers(const InputSpec& input, int size) {
  std::vector<int> receivers;
  if (input.to == InputSpec::To::rank) receivers.push_back(input.rank);
  if (input.to == InputSpec::To::all) {
    receivers.resize(static_cast<std::size_t>(size));
    std::iota(receivers.begin(), receivers.end(), 0);
  }
  return receivers;
}

namespace {

bool runs_here(const Plan& plan, const std::string& name) {
  return std::any_of(plan.allocation.hosts.begin(), plan.allocation.hosts.end(),
                     [&](const Host& host) { return host.is_this_machine && host.name == name; });
}

std::vector<LaunchHost> hosts_of(const Placement& placement) {
  std::vector<LaunchHost> hosts;
  for (const auto& host : placement.hosts) {
    LaunchHost entry{host.host, {}};
    for (const auto& rank : host.ranks) entry.ranks.push_back(rank.rank);
    hosts.push_back(std::move(entry));
  }
  return hosts;
}

// NVML's name of a device: a MIG device has one of its own.
const std::string& nvml_name(const Gpu& gpu) {
  return gpu.visible.starts_with("MIG-") ? gpu.visible : gpu.uuid;
}

// Those that the host's ranks were given; all of the host's, where they choose for themselves or
// the user wants one rank to have them all.
std::vector<std::string> gpus_to_watch(const JobSpec& spec, const Plan& plan,
                                       const HostPlacement& placed) {
  const bool all = spec.ranks_per_host == 1 || spec.gpu_bind == GpuBind::none;
  const auto& hosts = plan.allocation.hosts;
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const Host& candidate) {
    return candidate.name == placed.host && candidate.inventory;
  });
  std::vector<std::string> names;
  if (host == hosts.end()) return names;
  for (std::size_t i = 0; i < host->inventory->gpus.size(); ++i) {
    const bool is_given = all || std::any_of(placed.ranks.begin(), placed.ranks.end(),
                                             [&](const RankPlacement& rank) {
                                               return rank.gpu == static_cast<int>(i);
                                             });
    const auto& name = nvml_name(host->inventory->gpus[i]);
    if (is_given && !name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace

LaunchMessage launch_message(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                             const JobContext& context, std::size_t host_index) {
  const Environment& caller = context.environment;
  const Placement& placement = plan.placement;
  LaunchMessage message;
  message.size = placement.size;
  message.host_index = static_cast<int>(host_index);
  if (spec.pmix != PmixMode::off) {
    message.hosts = hosts_of(placement);
    message.pmix_namespace = identity.pmix_namespace;
  }
  message.program = spec.program.string();
  message.arguments = spec.command;
  message.working_directory = spec.working_directory.string();
  message.environment = job_environment(caller, spec);
  message.stall_time = stall_time(message.environment);
  if (!runs_here(plan, placement.hosts[host_index].host)) {
    message.host_variables = leave_host_variables(spec, message.environment);
    message.limits = context.limits;
  }
  message.gpus = gpus_to_watch(spec, plan, placement.hosts[host_index]);
  message.kill_signal = spec.stop.signal;
  message.grace = spec.stop.grace;
  const auto receivers = input_receivers(spec.input, placement.size);
  for (const auto& placed : placement.hosts[host_index].ranks) {
    LaunchRank rank;
    rank.rank = placed.rank;
    rank.local_rank = placed.local_rank;
    rank.wants_input =
        std::find(receivers.begin(), receivers.end(), placed.rank) != receivers.end();
    rank.environment = rank_environment(caller, identity, placement, host_index, placed);
    rank.cpus = placed.cpus;
    rank.numa_nodes = placed.numa_nodes;
    message.hold_master_port |= placed.rank == 0;
    message.ranks.push_back(std::move(rank));
  }
  return message;
}

}  // namespace hvdrun
