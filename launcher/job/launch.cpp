#include "job/launch.hpp"

#include "common/text.hpp"
#include "job/agents.hpp"
#include "job/frameworks.hpp"
#include "job/stall_time.hpp"
#include "output/sink.hpp"
#include "protocol/frame.hpp"
#include "resources/place.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr const char* kShell = "/bin/sh";

bool runs_here(const Plan& plan, const std::string& name) {
  return std::any_of(plan.allocation.hosts.begin(), plan.allocation.hosts.end(),
                     [&](const Host& host) { return host.is_this_machine && host.name == name; });
}

// Leaves the addresses empty if the ports are not known yet.
std::vector<LaunchHost> hosts_of(const Placement& placement, const RankPorts& ports) {
  std::vector<LaunchHost> hosts;
  for (const auto& host : placement.hosts) {
    LaunchHost entry{host.host, {}};
    if (hosts.size() < ports.addresses.size()) entry.address = ports.addresses[hosts.size()];
    for (const auto& rank : host.ranks) entry.ranks.push_back(rank.rank);
    hosts.push_back(std::move(entry));
  }
  return hosts;
}

// Lets the agent watch the GPUs that the host's ranks and spares were given. Lets it watch all of
// the host's if ranks choose their GPUs themselves, or the user wants one rank to have all.
void watch_gpus(const JobSpec& spec, const Plan& plan, const HostPlacement& placed,
                LaunchMessage& message) {
  const bool all = spec.ranks_per_host == 1 || spec.gpu_bind == GpuBind::none;
  const auto& hosts = plan.allocation.hosts;
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const Host& candidate) {
    return candidate.name == placed.host && candidate.inventory;
  });
  if (host == hosts.end()) return;
  message.gpu_vendor = host->inventory->gpu_vendor;
  for (std::size_t i = 0; i < host->inventory->gpus.size(); ++i) {
    const auto has_it = [i](const RankPlacement& rank) { return rank.gpu == static_cast<int>(i); };
    const bool is_given = all || std::ranges::any_of(placed.ranks, has_it) ||
                          std::ranges::any_of(placed.spares, has_it);
    const auto& name = watched_name(host->inventory->gpus[i]);
    if (is_given && !name.empty()) message.gpus.push_back(name);
  }
}

// Returns the arguments of a shell that starts the program by the command of --wrap, in the ranks
// that it is for.
std::vector<std::string> wrapped_command(const JobSpec& spec, int size) {
  std::string code = "exec " + spec.wrap.command + " \"$@\"";
  if (spec.wrap.ranks) {
    std::string ranks;
    for (int rank = 0; rank < size; ++rank)
      if (spec.wrap.ranks->contains(rank))
        ranks += (ranks.empty() ? "" : "|") + std::to_string(rank);
    code = "case $HVD_RANK in " + ranks + ") " + code + ";; esac; exec \"$@\"";
  }
  std::vector<std::string> words{kShell, "-c", std::move(code), "hvdrun --wrap",
                                 spec.program.string()};
  words.insert(words.end(), spec.command.begin() + 1, spec.command.end());
  return words;
}

// Returns the placement that a new rank reads from its variables. Its host has its number among the
// hosts with ranks, which may be others than those of the start.
Placement with_new_rank(const Placement& placement, std::size_t host_index,
                        const common::MemberNumbers& numbers) {
  Placement planned = placement;
  planned.size = static_cast<int>(numbers.size);
  HostPlacement own = planned.hosts[host_index];
  own.ranks.resize(numbers.local_size);
  planned.hosts.erase(planned.hosts.begin() + static_cast<std::ptrdiff_t>(host_index));
  planned.hosts.resize(numbers.node_count - 1);
  for (auto& host : planned.hosts)
    if (host.ranks.empty()) host.ranks.emplace_back();
  planned.hosts.insert(planned.hosts.begin() + static_cast<std::ptrdiff_t>(numbers.node_rank),
                       std::move(own));
  return planned;
}

}  // namespace

std::vector<GpuUse> with_device_names(std::vector<GpuUse> uses, const Host& host) {
  if (!host.inventory) return uses;
  const auto& gpus = host.inventory->gpus;
  for (auto& use : uses) {
    const auto at = std::find_if(gpus.begin(), gpus.end(),
                                 [&](const Gpu& gpu) { return watched_name(gpu) == use.uuid; });
    if (at != gpus.end()) use.device = name_gpu(*at, static_cast<int>(at - gpus.begin()));
  }
  return uses;
}

std::vector<int> input_receivers(const JobSpec& spec, int size) {
  if (spec.output.terminal_rank) return {*spec.output.terminal_rank};
  const InputSpec& input = spec.input;
  std::vector<int> receivers;
  if (input.to == InputSpec::To::rank) receivers.push_back(input.rank);
  if (input.to == InputSpec::To::all) {
    receivers.resize(static_cast<std::size_t>(size));
    std::iota(receivers.begin(), receivers.end(), 0);
  }
  return receivers;
}

bool inherits_input(const JobSpec& spec, const Plan& plan) {
  const auto receivers = input_receivers(spec, plan.placement.size);
  if (receivers.size() != 1 || spec.output.terminal_rank || spec.max_restarts > 0) return false;
  struct stat status {};
  const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
  if (::fstat(STDIN_FILENO, &status) != 0 || S_ISREG(status.st_mode) ||
      ::isatty(STDIN_FILENO) != 0 || flags < 0 || (flags & O_NONBLOCK) != 0)
    return false;
  const auto holds = std::ranges::find_if(plan.placement.hosts, [&](const auto& host) {
    return std::ranges::find(host.ranks, receivers.front(), &RankPlacement::rank) !=
           host.ranks.end();
  });
  return holds != plan.placement.hosts.end() && runs_here(plan, holds->host);
}

LaunchMessage launch_message(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                             const JobContext& context, std::size_t host_index,
                             const std::vector<std::string>& interfaces,
                             const std::optional<TerminalSettings>& terminal) {
  const Environment& caller = context.environment;
  const Placement& placement = plan.placement;
  LaunchMessage message;
  message.size = placement.size;
  message.host_index = static_cast<int>(host_index);
  message.hosts = hosts_of(placement, identity.ports);
  if (spec.pmix != PmixMode::off) message.pmix_namespace = identity.pmix_namespace;
  const bool is_wrapped = !spec.wrap.command.empty();
  message.program = is_wrapped ? kShell : spec.program.string();
  message.arguments = is_wrapped ? wrapped_command(spec, placement.size) : spec.command;
  message.working_directory = spec.working_directory.string();
  message.environment = job_environment(caller, spec, interfaces);
  message.stall_time = stall_time(message.environment);
  message.join_time = join_time(message.environment);
  if (!runs_here(plan, placement.hosts[host_index].host)) {
    message.host_variables = leave_host_variables(spec, message.environment);
    message.limits = context.limits;
    message.umask = context.umask;
    message.niceness = context.niceness;
  }
  message.mlx_hosts = mlx_hosts(spec, identity.ports, placement);
  watch_gpus(spec, plan, placement.hosts[host_index], message);
  message.elastic = spec.elastic.min_ranks.has_value();
  if (message.elastic) message.key = identity.key;
  message.grows = spec.elastic.replaces || spec.elastic.spares > 0;
  message.order_streams = same_place(STDOUT_FILENO, STDERR_FILENO);
  message.kill_signal = spec.stop.signal.value_or(SIGTERM);
  message.grace = spec.stop.grace_period();
  const auto receivers = input_receivers(spec, placement.size);
  const bool inherits = inherits_input(spec, plan);
  for (const auto& placed : placement.hosts[host_index].ranks) {
    LaunchRank rank;
    rank.rank = placed.rank;
    rank.local_rank = placed.local_rank;
    const bool reads =
        std::find(receivers.begin(), receivers.end(), placed.rank) != receivers.end();
    rank.wants_input = reads && !inherits;
    rank.inherits_input = reads && inherits;
    if (placed.rank == spec.output.terminal_rank) rank.terminal = terminal;
    for (auto& [name, value, reason] :
         rank_environment(caller, spec, identity, placement, host_index, placed))
      rank.environment.emplace_back(std::move(name), std::move(value));
    rank.cpus = placed.cpus;
    rank.numa_nodes = placed.numa_nodes;
    message.ranks.push_back(std::move(rank));
  }
  return message;
}

void leave_out_ranks(const JobContext& context, LaunchMessage& message) {
  message.ranks.clear();
  message.limits = context.limits;
  message.umask = context.umask;
  message.niceness = context.niceness;
}

LaunchRank new_rank(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                    const JobContext& context, std::size_t host_index, const RankPlacement& place,
                    const common::MemberNumbers& numbers) {
  const auto planned = with_new_rank(plan.placement, host_index, numbers);
  RankPlacement rank = place;
  rank.rank = static_cast<int>(numbers.rank);
  rank.cross_rank = static_cast<int>(numbers.cross_rank);
  rank.cross_size = static_cast<int>(numbers.cross_size);
  LaunchRank launched;
  launched.rank = place.rank;
  launched.local_rank = place.local_rank;
  for (auto& [name, value, reason] :
       rank_environment(context.environment, spec, identity, planned, numbers.node_rank, rank))
    launched.environment.emplace_back(std::move(name), std::move(value));
  // Which other ranks this host has is decided when it joins.
  if (const auto* scheduler = scheduler_of(context.environment))
    for (const auto unknown : scheduler->unknown_to_newcomers())
      std::erase_if(launched.environment, [&](const auto& each) { return each.first == unknown; });
  launched.environment.emplace_back(common::kNewcomerVariable, "1");
  launched.cpus = place.cpus;
  launched.numa_nodes = place.numa_nodes;
  return launched;
}

bool hold_all_ports(Agents& agents, const JobSpec& spec, const Placement& placement) {
  for (std::size_t host = 0; host < agents.size(); ++host) {
    const auto held = static_cast<int>(agents.on_host(host).ports.size());
    if (held != ports_to_hold(spec, placement, host).count) return false;
  }
  return true;
}

RankPorts ports_of(Agents& agents, std::vector<std::string> addresses) {
  RankPorts ports;
  ports.addresses = std::move(addresses);
  for (std::size_t host = 0; host < agents.size(); ++host) {
    const auto& agent = agents.on_host(host);
    auto& held = ports.ports.emplace_back();
    for (const int port : agent.ports) held.push_back(std::to_string(port));
  }
  return ports;
}

Result<std::string> pack_for(const std::string& host, const LaunchMessage& message) {
  auto payload = pack(message);
  if (payload.size() <= kMaxPayload) return payload;
  return fail(fmt::format("the launch message for {} ({}) has {} MB, and the limit is {} MB: start "
                          "fewer ranks there, or with a smaller environment",
                          host, plural(message.ranks.size(), "rank"), (payload.size() >> 20) + 1,
                          kMaxPayload >> 20),
              kExitUsage);
}

}  // namespace hvdrun
