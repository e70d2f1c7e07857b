#include "job/ssh_starter.hpp"

#include "agent/descriptor_limit.hpp"
#include "channels/child_process.hpp"
#include "channels/libssh_agent.hpp"
#include "channels/ssh_agent.hpp"
#include "remote/remote_agent.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace hvdrun {
namespace {

// The most logins at a time. More would only wait for each other on this machine's cores.
constexpr std::size_t kMostAtOnce = 256;

// Descriptors for each host whose agent is started by ssh: two of the link, the mailbox of the
// login's thread, and the connection twice, or ssh's stderr and process.
constexpr std::size_t kPerHost = 5;
// During a login the most are open while `ssh -G` is started: both ends of its pipes.
constexpr std::size_t kPerLogin = 10;

SshTarget ssh_target(const Host& host) {
  return {host.address, host.user, host.port};
}

}  // namespace

SshStarter::SshStarter(StarterContext context, std::vector<AgentState*> agents, Events events)
    : context_(std::move(context)),
      agents_(std::move(agents)),
      events_(std::move(events)),
      standstill_tick_(context_.loop, [this] { tick_standstill(); }) {}

std::size_t SshStarter::steady_descriptors() const {
  return agents_.size() * kPerHost;
}

std::size_t SshStarter::descriptors_to_start() const {
  return steady_descriptors() + std::min(agents_.size(), kMostAtOnce) * kPerLogin;
}

std::size_t SshStarter::descriptors_of_one_start() const {
  return kPerLogin;
}

void SshStarter::start() {
  const auto logins = free_descriptors(steady_descriptors() + kDescriptorsForLater) / kPerLogin;
  most_logins_ = std::clamp<std::size_t>(logins, 1, kMostAtOnce);
  tick_standstill();
  start_more();
}

bool SshStarter::start_again(const AgentState& lost) {
  agents_.push_back(&events_.add_successor(lost));
  tick_standstill();
  start_more();
  return true;
}

void SshStarter::start_more() {
  auto under_way = static_cast<std::size_t>(std::ranges::count_if(agents_, [](const auto* agent) {
    const auto phase = agent->life.phase();
    return phase > AgentPhase::waiting && phase < AgentPhase::greeted && !agent->life.gone();
  }));
  for (; next_ < agents_.size() && under_way < most_logins_; ++next_) {
    log_in(*agents_[next_]);
    ++under_way;
  }
}

SshOptions SshStarter::ssh_options() const {
  const auto& remote = context_.remote;
  SshOptions options;
  options.program = remote.ssh_program;
  options.port = remote.ssh_port;
  options.identity = remote.ssh_identity.string();
  options.accept_new = remote.ssh_accept_new;
  options.agent_path = context_.agent_path;
  options.host_timeout = std::chrono::ceil<std::chrono::seconds>(remote.host_timeout);
  if (context_.sendings) options.sent = context_.sendings->agent();
  return options;
}

void SshStarter::log_in(AgentState& agent) {
  events_.on_begin(agent);
  const auto& remote = context_.remote;
  // Another program may not have all functions of ssh, such as printing its configuration.
  const bool is_ssh = remote.ssh_program == RemoteSpec{}.ssh_program;
  SshUse use = SshUse::either;
  if (remote.ssh_client == SshClient::libssh) use = SshUse::libssh;
  if (remote.ssh_client == SshClient::openssh) use = SshUse::ssh;
  const SshTarget target = ssh_target(agent.host);
  const StartLogin start = [this, target, use, is_ssh](
                               const std::optional<std::vector<std::string>>& command,
                               const AgentChannel::Events& events) {
    SshOptions options = ssh_options();
    std::vector<std::string> arguments{std::string(kAgentArgument)};
    if (command) {
      options.sent.reset();
      options.agent_path = command->front();
      arguments.assign(command->begin() + 1, command->end());
    }
    return is_ssh || use == SshUse::libssh
               ? start_libssh_agent(context_.loop, gate_, target, options, arguments, use, events)
               : start_ssh_agent(context_.loop, target, options, arguments, events);
  };
  auto events = events_.channel_events(agent);
  auto channel = context_.sendings ? start_sending_agent(context_.loop, context_.sendings, start,
                                                         std::move(events))
                                   : start({}, events);
  if (channel)
    agent.channel = std::move(*channel);
  else
    events_.on_failure(agent, channel.error().message);
}

// All agents have the same gate, which must know how long this process was stopped.
void SshStarter::tick_standstill() {
  gate_->standstill().tick();
  const auto is_up = [](const auto* agent) {
    return agent->life.has(AgentPhase::greeted) || agent->life.gone();
  };
  if (!std::ranges::all_of(agents_, is_up)) standstill_tick_.start(Standstill::kInterval);
}

std::vector<bool> SshStarter::clean_up(const std::vector<AgentState*>& agents,
                                       std::chrono::milliseconds timeout) {
  std::map<const AgentState*, bool> ended_well;
  std::deque<AgentState*> waiting(agents.begin(), agents.end());
  while (!waiting.empty()) {
    // As many logins through one ssh server as at the start.
    std::map<std::string, std::size_t> logins;
    std::vector<AgentState*> now;
    std::vector<std::vector<std::string>> commands;
    std::erase_if(waiting, [&](AgentState* agent) {
      const auto facts = agent->channel->ssh_facts();
      if (!facts.server.empty() && ++logins[facts.server] > LoginGate::kMost) return false;
      auto options = ssh_options();
      options.overrides = facts.overrides;
      now.push_back(agent);
      commands.push_back(ssh_command(ssh_target(agent->host), options,
                                     cleanup_arguments(context_.job_id, {agent->number})));
      return true;
    });
    const auto results = run_children(commands, timeout);
    for (std::size_t i = 0; i < now.size(); ++i) ended_well[now[i]] = results[i];
  }
  std::vector<bool> confirmed;
  for (const auto* agent : agents) confirmed.push_back(ended_well[agent]);
  return confirmed;
}

}  // namespace hvdrun
