#include "resources/chosen_hosts.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"
#include "resources/host_names.hpp"
#include "resources/requested_hosts.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::vector<std::string> scheduler_names(const Allocation& allocation) {
  std::vector<std::string> names;
  names.reserve(allocation.hosts.size());
  for (const auto& host : allocation.hosts) names.push_back(host.address);
  return names;
}

// Finds the host that a name means. It asks about the job's hosts at most once.
class HostFinder {
 public:
  HostFinder(const Allocation& allocation, const LocalMachine& machine, const HostQueries& queries,
             const Scheduler& scheduler)
      : names_(scheduler_names(allocation)),
        machine_(machine),
        queries_(queries),
        scheduler_(scheduler) {}

  // Returns the scheduler's name of the host; nullopt if it is none of the job's.
  std::optional<std::string> find(const std::string& name) {
    for (const auto& host : names_)
      if (are_names_of_one_host(name, host)) return host;
    if (names_this_machine(name, machine_.name))
      for (const auto& host : names_)
        if (names_this_machine(host, machine_.name)) return host;
    ask_scheduler();
    for (const auto& node : nodes_)
      for (const auto& other : {node.address, node.host_name})
        if (!other.empty() && are_names_of_one_host(name, other)) return node.name;
    return find_by_address(name);
  }

 private:
  void ask_scheduler() {
    if (std::exchange(asked_, true)) return;
    nodes_ = scheduler_.all_names(names_, queries_.ask);
    std::erase_if(nodes_, [&](const JobHostNames& node) {
      return std::find(names_.begin(), names_.end(), node.name) == names_.end();
    });
  }

  std::optional<std::string> find_by_address(const std::string& name) {
    if (!queries_.addresses) return std::nullopt;
    if (addresses_.empty()) {
      std::vector<std::string> asked = names_;
      for (auto& host : asked)
        for (const auto& node : nodes_)
          if (node.name == host && !node.address.empty()) host = node.address;
      addresses_ = queries_.addresses(asked);
    }
    const auto wanted = queries_.addresses({name});
    if (wanted.empty()) return std::nullopt;
    for (std::size_t i = 0; i < addresses_.size(); ++i)
      if (std::find_first_of(addresses_[i].begin(), addresses_[i].end(), wanted[0].begin(),
                             wanted[0].end()) != addresses_[i].end())
        return names_[i];
    return std::nullopt;
  }

  std::vector<std::string> names_;
  const LocalMachine& machine_;
  const HostQueries& queries_;
  const Scheduler& scheduler_;
  bool asked_ = false;
  std::vector<JobHostNames> nodes_;
  std::vector<std::vector<std::string>> addresses_;  // by host; empty: not asked
};

std::string leave_out(const std::string& where, const Scheduler& scheduler) {
  return fmt::format("leave {} out: in a {} job hvdrun finds the hosts", where, scheduler.name());
}

// Writes the scheduler's names into the requests. Error: a host is not among the job's.
Result<void> use_names_of_job(std::vector<HostRequest>& requests, const std::string& where,
                              HostFinder finder, const Scheduler& scheduler,
                              const Allocation& allocation) {
  std::vector<std::string> unknown;
  for (auto& request : requests) {
    if (auto name = finder.find(request.name))
      request.name = std::move(*name);
    else
      unknown.push_back(request.name);
  }
  if (unknown.empty()) return {};
  return usage_error(fmt::format("{}: {} {} not among the hosts of {}, which are {}; {}", where,
                                 fold_hosts(unknown), unknown.size() == 1 ? "is" : "are",
                                 allocation.source, fold_hosts(scheduler_names(allocation)),
                                 leave_out(where, scheduler)));
}

// Removes what is for ssh. Error: another user.
Result<void> take_out_ssh(std::vector<HostRequest>& requests, const LocalMachine& machine,
                          const Scheduler& scheduler, Allocation& allocation) {
  bool has_port = false;
  for (auto& request : requests) {
    if (!request.user.empty() && request.user != machine.user)
      return usage_error(
          fmt::format("{}: {}@{}: in a {} job ranks run as the user who has the job; leave {}@ out",
                      request.source, request.user, request.name, scheduler.name(), request.user));
    request.user.clear();
    has_port = std::exchange(request.port, std::nullopt).has_value() || has_port;
  }
  if (has_port && allocation.started_by == StartedBy::srun)
    allocation.notes.push_back(fmt::format(
        "ports of ssh in the list of hosts have no effect in a {} job: srun starts the ranks",
        scheduler.name()));
  return {};
}

struct GivenSlots {
  int slots;
  std::string text;  // for people: "4 GPUs there (SLURM_GPUS_PER_NODE)"
};

// Returns how many slots the scheduler gives the host; nullopt if it does not say.
std::optional<GivenSlots> given_slots(const JobSpec& spec, const JobShare& share) {
  const auto given = [](int count, const char* what, const std::string& source) {
    return GivenSlots{count, fmt::format("{} there ({})", plural(count, what), source)};
  };
  if (share.gpus.value_or(0) > 0 && spec.gpu_bind != GpuBind::none)
    return given(*share.gpus, "GPU", share.gpus_source);
  if (share.tasks) return given(*share.tasks, "task", share.tasks_source);
  if (share.cpus) return given(*share.cpus, "CPU", share.cpus_source);
  return std::nullopt;
}

// Takes the slots that the user wrote. Error: they are more than the scheduler gave.
Result<void> take_slots(const JobSpec& spec, const Host& requested, const std::string& where,
                        const std::string& source, const Scheduler& scheduler, Host& host) {
  host.max_slots = requested.max_slots;
  if (!requested.slots_fixed) return {};
  const auto given = given_slots(spec, host.share);
  if (!spec.oversubscribe && given && *requested.slots > given->slots)
    return usage_error(fmt::format(
        "{}: {} has {} here, but {} has {}; write at most {}, or {}, or add --oversubscribe", where,
        host.name, plural(static_cast<std::size_t>(*requested.slots), "slot"), source, given->text,
        given->slots, leave_out(where, scheduler)));
  host.slots = requested.slots;
  host.slots_fixed = true;
  host.slots_source = requested.slots_source;
  return {};
}

}  // namespace

Result<void> choose_hosts(const JobSpec& spec, std::vector<HostRequest> requests,
                          const std::string& where, const LocalMachine& machine,
                          const HostQueries& queries, const Scheduler& scheduler,
                          Allocation& allocation) {
  HVD_CHECK(use_names_of_job(requests, where, {allocation, machine, queries, scheduler}, scheduler,
                             allocation));
  HVD_CHECK(take_out_ssh(requests, machine, scheduler, allocation));
  HVD_TRY(const auto requested, requested_hosts(spec, requests, where, machine));
  std::vector<Host> chosen;
  for (const auto& wanted : requested) {
    const auto host = std::ranges::find(allocation.hosts, wanted.address, &Host::address);
    HVD_CHECK(take_slots(spec, wanted, where, allocation.source, scheduler, *host));
    chosen.push_back(std::move(*host));
    allocation.hosts.erase(host);
  }
  if (!allocation.hosts.empty())
    allocation.reasons.push_back(
        fmt::format("{}: left out: {}", where, fold_hosts(scheduler_names(allocation))));
  allocation.hosts = std::move(chosen);
  return {};
}

}  // namespace hvdrun
