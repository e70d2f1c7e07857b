#include "job/starting.hpp"

#include "base/severity.hpp"
#include "job/host_addresses.hpp"
#include "job/plan.hpp"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// After one host could not be reached: so that others with the same trouble are named in one line.
constexpr std::chrono::milliseconds kMoreTrouble{1000};

}  // namespace

Starting::Starting(AttemptParts& attempt)
    : attempt_(attempt), unreached_timer_(attempt.job.loop, [this] { give_up(); }) {}

Result<void> Starting::begin() {
  const auto& spec = attempt_.job.spec;
  const auto& plan = attempt_.job.plan;
  Agents::Start start;
  auto& options = start.options;
  options.job_id = attempt_.identity.folder_id;
  options.restart_count = attempt_.identity.restart_count;
  options.pmix = spec.pmix;
  start.hosts = hosts_to_start(plan);
  ask_for_facts(spec, start.hosts, options);
  for (const auto& host : start.hosts) start.ranks.push_back(expected_ranks(plan, host.name));
  start.started_by = plan.allocation.started_by;
  start.survives_hosts = spec.elastic.min_ranks.has_value();
  start.timeout = std::chrono::ceil<std::chrono::seconds>(spec.start_timeout);
  if (is_final(plan.placement)) HVD_CHECK(begin_ranks());
  if (is_final(plan.placement) && plan.placement.hosts.size() == 1) {
    const auto wanted = ports_to_hold(spec, plan.placement, 0);  // saves a question and its answer
    options.ports = wanted.count;
    options.master_port = wanted.master_port;
  }
  HVD_CHECK(attempt_.agents->start(std::move(start)));
  attempt_.start_timer.start(spec.start_timeout);
  attempt_.status_line.begin();
  return {};
}

Result<void> Starting::on_greeted(AgentState& /*agent*/) {
  if (!unreached_.empty() || !attempt_.agents->all(AgentPhase::greeted)) return {};
  HVD_CHECK(place());
  attempt_.ranks_are_placed();
  return {};
}

Result<void> Starting::place() {
  const auto& spec = attempt_.job.spec;
  auto& plan = attempt_.job.plan;
  auto& agents = *attempt_.agents;
  if (!is_final(plan.placement)) {
    for (const auto& agent : agents.every())
      if (agent.host.inventory) take_inventory(spec, agent.host.name, *agent.host.inventory, plan);
    HVD_TRY(const auto joined, join_same_hosts(agents, plan.allocation));
    for (const auto& line : joined) attempt_.note(line);
    std::set<std::string> asked;
    for (const auto& agent : agents.every()) asked.insert(agent.host.name);
    HVD_CHECK(place_ranks_on(spec, asked, plan));
    HVD_CHECK(check_named_ranks(spec, plan.placement.size));
    for (const auto& line : plan_lines(spec, plan)) attempt_.note(line);
    HVD_CHECK(begin_ranks());
  }
  agents.assign(plan.placement);
  return find_interfaces(agents, spec.remote.network_interface);
}

Result<void> Starting::begin_ranks() {
  attempt_.table = RankTable(attempt_.placement(), attempt_.begun);
  return attempt_.job.output.begin(attempt_.placement());
}

// Waits a little for what is wrong with other hosts.
void Starting::on_lost(AgentState& agent, std::string why) {
  unreached_.push_back({agent.host.name, std::move(why)});
  if (attempt_.agents->all(AgentPhase::greeted))
    give_up();
  else if (!unreached_timer_.pending())
    unreached_timer_.start(kMoreTrouble);
}

void Starting::give_up() {
  for (const auto& line : unreached_lines(unreached_)) attempt_.note(error_text(line));
  attempt_.stop({EndKind::agent_lost, unreached_reason(unreached_), kExitLauncher});
}

void Starting::on_start_timeout() {
  attempt_.stop_for_start_timeout(unreached_);
}

}  // namespace hvdrun
