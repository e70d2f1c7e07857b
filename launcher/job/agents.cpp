#include "job/agents.hpp"

#include "protocol/messages.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

// Credit is returned in amounts of at least this, so that there are few frames.
constexpr std::uint32_t kCreditStep = kOutputWindow / 8;

// A signal that a scheduler sends to the launcher and to a step comes from the second one within
// this time.
constexpr std::chrono::seconds kSameSignal{1};

}  // namespace

AgentState& Agents::add_agent(const Host& host) {
  auto& agent = agents_.emplace_back();
  agent.number = agent.host_index = by_host_.size();
  agent.host = host;
  by_host_.push_back(&agent);
  return agent;
}

AgentState& Agents::add_successor(const AgentState& lost) {
  const auto number = agents_.size();
  auto& agent = agents_.emplace_back();
  agent.number = number;
  agent.host_index = lost.host_index;
  agent.host = lost.host;
  agent.interfaces = lost.interfaces;
  agent.predecessor = lost.number;
  by_host_[lost.host_index] = &agent;
  return agent;
}

void Agents::assign(const Placement& placement) {
  launched_ = true;
  by_host_.clear();
  for (auto& agent : agents_) agent.dismissed = true;
  for (const auto& host : placement.hosts) {
    const auto at = std::find_if(agents_.begin(), agents_.end(),
                                 [&](const auto& agent) { return agent.host.name == host.host; });
    at->dismissed = false;
    at->host_index = by_host_.size();
    by_host_.push_back(&*at);
  }
  for (auto& agent : agents_)
    if (agent.dismissed) agent.send(FrameType::kill);
}

void Agents::advance(AgentState& agent, AgentPhase phase) {
  agent.life.phase_ = std::max(agent.life.phase_, phase);
}

void Agents::begin_link(AgentState& agent) {
  auto& life = agent.life;
  life.phase_ = AgentPhase::starting;
  if (life.end_ == AgentLife::End::link_closed) life.end_ = AgentLife::End::none;
  life.loss_.why.clear();
}

bool Agents::reach(AgentState& agent) {
  if (agent.life.has(AgentPhase::reached)) return false;
  advance(agent, AgentPhase::reached);
  return true;
}

void Agents::greeted(AgentState& agent, const HelloMessage& hello) {
  advance(agent, AgentPhase::greeted);
  agent.pid = hello.pid;
  agent.route = hello.route;
  agent.pmix_error = hello.pmix_error;
  agent.facts = hello.facts;
  if (!hello.ports.empty()) agent.ports = hello.ports;
  if (hello.inventory) agent.host.inventory = hello.inventory;
}

void Agents::explain_loss(AgentState& agent, const std::string& why) {
  if (agent.life.loss_.why.empty()) agent.life.loss_.why = why;
}

void Agents::close_link(AgentState& agent) {
  if (!agent.life.link_closed()) agent.life.end_ = AgentLife::End::link_closed;
}

void Agents::end(AgentState& agent) {
  drop(agent);
  events_.on_gone(agent);
}

bool Agents::all(AgentPhase phase) const {
  return std::ranges::all_of(agents_, [phase](const auto& agent) {
    return agent.life.gone() || agent.dismissed || agent.predecessor || agent.life.has(phase);
  });
}

bool Agents::all_gone() const {
  return std::ranges::all_of(agents_, [](const auto& agent) { return agent.life.gone(); });
}

std::set<std::size_t> Agents::that_can_answer() const {
  std::set<std::size_t> hosts;
  for (std::size_t host = 0; host < by_host_.size(); ++host) {
    const auto& agent = *by_host_[host];
    const auto& life = agent.life;
    if (!agent.dismissed && agent.link && life.has(AgentPhase::running) && !life.done() &&
        !life.link_closed())
      hosts.insert(host);
  }
  return hosts;
}

std::vector<HostHardware> Agents::hardware() const {
  std::vector<HostHardware> all;
  const auto is_another_name = [this](const AgentState& agent) {
    return agent.dismissed && agent.facts &&
           std::ranges::any_of(agents_, [&](const AgentState& other) {
             return !other.dismissed && other.facts && !other.facts->machine.empty() &&
                    other.facts->machine == agent.facts->machine;
           });
  };
  for (const auto& agent : agents_) {
    if (!agent.host.inventory || is_another_name(agent)) continue;
    HostHardware host{agent.host.name, static_cast<int>(agent.host.inventory->cores.size()), {}};
    for (const auto& gpu : agent.host.inventory->gpus) host.gpus.push_back(gpu.name);
    all.push_back(std::move(host));
  }
  return all;
}

void Agents::send_all(FrameType type, std::string_view payload) {
  for (auto& agent : agents_) agent.send(type, payload);
}

void Agents::send_signal(int signal) {
  sent_signals_[signal] = Silence::Clock::now();
  send_all(FrameType::signal, pack_number(static_cast<std::uint32_t>(signal)));
}

bool Agents::is_new_in_step(AgentState& from, int signal) {
  int& known = step_signals_[signal];
  if (++from.step_signals[signal] <= known) return false;
  ++known;
  return true;
}

void Agents::pass_on_here(int signal) {
  const auto sent = sent_signals_.find(signal);
  if (sent != sent_signals_.end() && Silence::Clock::now() - sent->second < kSameSignal) return;
  for (auto& agent : agents_)
    if (agent.host.is_this_machine)
      agent.send(FrameType::signal, pack_number(static_cast<std::uint32_t>(signal)));
}

void Agents::stop_starting(bool too_long) {
  for (auto& agent : agents_) {
    const auto& life = agent.life;
    const bool was_begun = agent.channel || agent.link;
    const bool is_healthy = !life.link_closed() && life.loss().why.empty();
    if (is_healthy && !life.has(AgentPhase::greeted) && !(too_long && was_begun))
      loss_of(agent).cause = Loss::Cause::job_stopped;
  }
  cut_starting();
}

void Agents::abandon() {
  for (auto& agent : agents_)
    if (!agent.life.gone()) end(agent);
}

void Agents::took_output(AgentState& agent, std::size_t bytes, bool may_return) {
  agent.credit_owed += static_cast<std::uint32_t>(bytes);
  if (agent.credit_owed >= kCreditStep && may_return) return_credit();
}

void Agents::return_credit() {
  for (auto& agent : agents_) {
    // One that has not greeted may have no link yet, and gets its credit then.
    if (agent.credit_owed == 0 || !agent.life.has(AgentPhase::greeted)) continue;
    agent.send(FrameType::output_credit, pack_number(std::exchange(agent.credit_owed, 0)));
  }
}

std::vector<UnconfirmedHost> Agents::unconfirmed_hosts() const {
  std::vector<UnconfirmedHost> hosts;
  for (const auto& agent : agents_)
    if (agent.life.has(AgentPhase::greeted) && !agent.life.done() && !agent.host.is_this_machine)
      hosts.push_back({agent.host.name, agent.pid, agent.life.loss().cleared_away});
  return hosts;
}

std::vector<std::string> Agents::abandoned_hosts() const {
  std::vector<std::string> hosts;
  for (const auto& agent : agents_)
    if (agent.life.gone() && agent.life.phase() == AgentPhase::running &&
        !agent.life.loss().cleared_away && !agent.host.is_this_machine)
      hosts.push_back(agent.host.name);
  return hosts;
}

LostHosts Agents::lost_hosts() const {
  LostHosts lost;
  for (const auto& agent : agents_) {
    const auto& life = agent.life;
    const auto& loss = life.loss();
    if (!life.gone() || life.done() || agent.dismissed || loss.cleared_away ||
        loss.cause == Loss::Cause::job_stopped)
      continue;
    (loss.cause == Loss::Cause::host_silent ? lost.silent : lost.others).push_back(agent.host.name);
  }
  return lost;
}

}  // namespace hvdrun
