#include "job/host_agents.hpp"

#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "base/version.hpp"
#include "channels/child_process.hpp"
#include "channels/libssh_agent.hpp"
#include "channels/remote_agent.hpp"
#include "channels/ssh_agent.hpp"
#include "channels/ssh_command.hpp"
#include "common/text.hpp"
#include "protocol/messages.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kLastResortPatience{5};
// srun ends after all of its agents.
constexpr std::chrono::seconds kSrunPatience{20};
// The most logins at a time. More would only wait for each other on this machine's cores.
constexpr std::size_t kMostAtOnce = 256;

// Descriptors for each host whose agent is started by ssh: two of the link, the mailbox of the
// login's thread, and the connection twice, or ssh's stderr and process.
constexpr std::size_t kPerHost = 5;
// During a login the most are open while `ssh -G` is started: both ends of its pipes.
constexpr std::size_t kPerLogin = 10;
// What the launcher opens later: files of output and reports.
constexpr std::size_t kLater = 4;

// One of the agents that an srun has started. They end together; see HostAgents::reap().
class SrunAgent final : public AgentChannel {
 public:
  SrunAgent(const std::unique_ptr<SrunAgents>& all, std::size_t host) : all_(all), host_(host) {}

  std::string_view name() const override { return "srun"; }
  bool host_answers(std::chrono::milliseconds time) const override {
    return all_->host_answers(host_, time);
  }
  void kill(pid_t) override { all_->cut(host_); }
  bool ended() const override { return true; }
  std::string failure() const override { return all_->why_lost(host_); }
  std::string connection_failure() const override { return all_->why_lost(host_); }
  bool network_failed() const override { return !connection_failure().empty(); }
  std::string note() const override { return all_->note(host_); }
  bool wait() override { return true; }

 private:
  const std::unique_ptr<SrunAgents>& all_;
  std::size_t host_;
};

SshTarget ssh_target(const Host& host) {
  return {host.address, host.user, host.port};
}

// Returns what the host printed instead of the agent's first frame: the text of a login shell that
// refuses, of a command that the server forces, of ~/.bashrc.
std::string say_login_text(const AgentState& agent) {
  if (!agent.link || agent.life.has(AgentPhase::reached)) return {};
  auto text = agent.link->text();
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  if (text.empty()) return {};
  return "; what came instead of hvdrun there: " +
         quote(std::string_view(text).substr(text.find_last_of("\n\r") + 1));
}

}  // namespace

HostAgents::HostAgents(const EventLoop& loop, const RemoteSpec& remote, const Environment& caller,
                       const std::string& executable, Events events)
    : Agents(std::move(events)),
      loop_(loop),
      remote_(remote),
      caller_(caller),
      agent_path_(remote.agent_path.empty() ? executable : remote.agent_path.string()),
      standstill_tick_(loop, [this] { tick_standstill(); }),
      beat_(loop, [this] { on_beat(); }) {
  if (!remote.agent_path.empty()) return;
  if (auto sent = sent_agent(caller)) sendings_ = std::make_shared<Sendings>(std::move(*sent));
}

// --- starting ------------------------------------------------------------------------------------

Result<void> HostAgents::start(Start start) {
  options_ = start.options;
  ranks_ = std::move(start.ranks);
  for (const auto& host : start.hosts) add_agent(host);
  // Starts the agent on this host first: it is forked, and must inherit nothing of the others.
  for (auto& agent : agents_) {
    if (!agent.host.is_this_machine) continue;
    auto here = options_;
    here.agent = agent.number;
    here.local_ranks = ranks_[agent.number];
    here.ignores_signals = true;
    here.launcher_is_here = true;
    here.host_timeout = remote_.host_timeout;
    begin(agent);
    HVD_TRY(agent.channel, start_local_agent(here, channel_events(agent)));
  }
  const auto others =
      static_cast<std::size_t>(std::count_if(agents_.begin(), agents_.end(), [](const auto& agent) {
        return !agent.host.is_this_machine;
      }));
  beat_.start(Silence::interval(remote_.host_timeout));
  if (others == 0) return {};
  const bool by_srun = start.from == HostSource::slurm;
  const auto logins = by_srun ? 0 : std::min(others, kMostAtOnce);
  const std::size_t more =
      by_srun ? srun_descriptors(others) : others * kPerHost + logins * kPerLogin;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  descriptors_.emplace(limit.rlim_cur + more);
  const auto steady = others * kPerHost + kLater;
  HVD_CHECK(check_descriptors(steady + (by_srun ? 0 : kPerLogin),
                              plural(others, "agent") + " of other hosts"));
  most_logins_ = std::clamp<std::size_t>(free_descriptors(steady) / kPerLogin, 1, kMostAtOnce);
  if (by_srun) start_by_srun(start.timeout);
  HVD_CHECK(heartbeats_.start(Silence::interval(remote_.host_timeout)));
  tick_standstill();
  start_more();
  return {};
}

// --- starting by srun ----------------------------------------------------------------------------

void HostAgents::start_by_srun(std::chrono::seconds timeout) {
  SrunJob job;
  if (const auto* id = find_variable(caller_, "SLURM_JOB_ID")) job.srun.job_id = *id;
  job.srun.agent_path = agent_path_;
  if (sendings_) job.srun.sent = sendings_->agent();
  job.job_id = options_.job_id;
  job.interfaces = remote_.network_interface;
  job.environment = caller_;
  job.timeout = timeout;
  for (auto& agent : agents_) {
    if (agent.host.is_this_machine) continue;
    begin(agent);
    agent.channel = std::make_unique<SrunAgent>(srun_, by_srun_.size());
    by_srun_.push_back(&agent);
    job.hosts.push_back({agent.host.address, agent.number, agent.host.slurm.gpus});
  }
  auto started = SrunAgents::start(
      loop_, std::move(job),
      {[this](std::size_t host, LinkEnd end) { attach(*by_srun_[host], std::move(end)); },
       [this](const std::vector<SrunFailure>& failures) { on_srun_failure(failures); },
       [this](std::size_t host, const std::string& text) {
         events_.on_text(*by_srun_[host], text);
       },
       [](const std::vector<LinkAddress>&) {}});
  if (started)
    srun_ = std::move(*started);
  else
    on_srun_failure({{{}, started.error().message}});
}

void HostAgents::on_srun_failure(const std::vector<SrunFailure>& failures) {
  for (const auto& failure : failures) {
    std::vector<std::string> names;
    for (const auto& list : failure.hosts)
      if (auto hosts = expand_host_list(list))
        names.insert(names.end(), hosts->begin(), hosts->end());
    for (auto* agent : by_srun_) {
      const bool meant = names.empty() ||
                         std::find(names.begin(), names.end(), agent->host.address) != names.end();
      if (meant && !agent->link && !agent->life.gone()) fail(*agent, failure.message);
    }
  }
}

// --- starting by ssh -----------------------------------------------------------------------------

void HostAgents::start_more() {
  auto under_way = static_cast<std::size_t>(std::ranges::count_if(agents_, [](const auto& agent) {
    const auto phase = agent.life.phase();
    return phase > AgentPhase::waiting && phase < AgentPhase::greeted && !agent.life.gone() &&
           !agent.host.is_this_machine;
  }));
  for (; next_ < agents_.size() && under_way < most_logins_; ++next_) {
    if (agents_[next_].life.phase() != AgentPhase::waiting) continue;
    start_by_ssh(agents_[next_]);
    ++under_way;
  }
}

SshOptions HostAgents::ssh_options() const {
  SshOptions options;
  options.program = remote_.ssh_program;
  options.port = remote_.ssh_port;
  options.identity = remote_.ssh_identity.string();
  options.accept_new = remote_.ssh_accept_new;
  options.agent_path = agent_path_;
  options.host_timeout = std::chrono::ceil<std::chrono::seconds>(remote_.host_timeout);
  if (sendings_) options.sent = sendings_->agent();
  return options;
}

void HostAgents::start_by_ssh(AgentState& agent) {
  begin(agent);
  const auto client = remote_.ssh_client;
  // Another program may not have all functions of ssh, such as printing its configuration.
  const bool is_ssh = remote_.ssh_program == RemoteSpec{}.ssh_program;
  SshUse use = SshUse::either;
  if (client == SshClient::libssh) use = SshUse::libssh;
  if (client == SshClient::openssh) use = SshUse::ssh;
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
               ? start_libssh_agent(loop_, gate_, target, options, arguments, use, events)
               : start_ssh_agent(loop_, target, options, arguments, events);
  };
  auto channel = sendings_ ? start_sending_agent(loop_, sendings_, start, channel_events(agent))
                           : start({}, channel_events(agent));
  if (channel)
    agent.channel = std::move(*channel);
  else
    fail(agent, channel.error().message);
}

void HostAgents::fail(AgentState& agent, std::string why) {
  loss_of(agent).why = std::move(why);
  end(agent);
}

AgentChannel::Events HostAgents::channel_events(AgentState& agent) {
  return {[this, &agent](LinkEnd end) { attach(agent, std::move(end)); },
          [this, &agent](std::string text) { events_.on_text(agent, std::move(text)); },
          [this, &agent] { consider_gone(agent); }};
}

void HostAgents::attach(AgentState& agent, LinkEnd end) {
  auto link = std::make_unique<Link>(
      loop_, std::move(end),
      Link::Events{[this, &agent](const Frame& frame) { on_frame(agent, frame); },
                   [this, &agent](const std::optional<Error>& error) {
                     close_link(agent);
                     if (error) explain_loss(agent, error->message);
                     // The agent does not notice that the launcher reads no more.
                     if (error && !agent.life.has(AgentPhase::greeted) && agent.channel)
                       agent.channel->kill(agent.pid);
                     consider_gone(agent);
                   }});
  Link& remote_link = *link;
  if (agent.link) heartbeats_.remove(*agent.link);
  agent.link = std::move(link);
  begin_link(agent);
  if (agent.host.is_this_machine) return;
  ConfigureMessage configure;
  configure.version = kVersion;
  configure.job_id = options_.job_id;
  configure.agent = agent.number;
  configure.restart_count = options_.restart_count;
  configure.pmix = options_.pmix;
  configure.local_ranks = ranks_[agent.number];
  configure.host_timeout = remote_.host_timeout;
  configure.names = options_.names;
  agent.send(FrameType::configure, pack(configure));
  heartbeats_.add(remote_link);
}

// --- while they live -----------------------------------------------------------------------------

void HostAgents::on_frame(AgentState& agent, const Frame& frame) {
  if (reach(agent)) agent.channel->on_reached();
  if (agent.silence) agent.silence->heard();
  if (std::exchange(agent.unresponsive, false)) events_.on_text(agent, "the agent answers again");
  if (frame.type == FrameType::alive) return;
  const bool was_new = !agent.life.has(AgentPhase::greeted);
  events_.on_frame(agent, frame);
  if (!was_new || !agent.life.has(AgentPhase::greeted)) return;
  agent.silence.emplace(remote_.host_timeout, Silence::Clock::now());
  if (const auto text = agent.channel->note(); !text.empty()) events_.on_text(agent, text);
  const auto has_greeted = [](const auto* each) { return each->life.has(AgentPhase::greeted); };
  if (srun_ && std::ranges::all_of(by_srun_, has_greeted)) srun_->let_go();
  start_more();
}

void HostAgents::tick_standstill() {
  gate_->standstill().tick();
  if (!std::ranges::all_of(agents_, [](const auto& agent) {
        return agent.life.has(AgentPhase::greeted) || agent.life.gone();
      }))
    standstill_tick_.start(Standstill::kInterval);
}

// Silence alone does not mean that an agent is lost: it may be stopped, swapped out, or wait for a
// file system. Then its host's kernel still answers. A host that is down or cut off does not.
void HostAgents::on_beat() {
  const auto now = Silence::Clock::now();
  const auto seconds = std::chrono::duration<double>(remote_.host_timeout).count();
  // What the host acknowledges it does within an interval. Until it is clear whether it is down or
  // only the agent is silent, nothing is said.
  const auto certainty = 2 * Silence::interval(remote_.host_timeout);
  for (auto& agent : agents_) {
    if (!agent.silence || agent.life.link_closed()) continue;
    const auto silent = agent.silence->grow(now);
    const bool quiet = silent > remote_.host_timeout;
    auto& loss = loss_of(agent);
    loss.cause = quiet && !agent.channel->host_answers(remote_.host_timeout)
                     ? Loss::Cause::host_silent
                     : Loss::Cause::agent;
    if (loss.cause == Loss::Cause::host_silent) {
      if (!loss.host_heard) loss.host_heard = now - silent;
      give_up(agent,
              fmt::format("the host has not answered for {:.3g} s (--host-timeout)", seconds));
    } else if (silent > remote_.host_timeout + certainty &&
               agent.channel->host_answers(certainty) && !std::exchange(agent.unresponsive, true)) {
      events_.on_text(
          agent, fmt::format("the agent has not answered for {:.3g} s{}; waiting for it", seconds,
                             agent.host.is_this_machine ? "" : ", but its host does"));
    }
  }
  beat_.start(Silence::interval(remote_.host_timeout));
}

void HostAgents::give_up(AgentState& agent, std::string why) {
  if (agent.life.gone()) return;
  loss_of(agent).why = std::move(why);
  if (agent.channel) agent.channel->kill(agent.pid);
}

void HostAgents::consider_gone(AgentState& agent) {
  const auto& life = agent.life;
  if (life.gone() || !life.link_closed() || !agent.channel || !agent.channel->ended()) return;
  const bool has_greeted = life.has(AgentPhase::greeted);
  auto& loss = loss_of(agent);
  if (!life.done())
    explain_loss(agent,
                 has_greeted ? agent.channel->connection_failure() : agent.channel->failure());
  if (has_greeted && !life.done() && !loss.host_heard && agent.channel->network_failed())
    loss.host_heard = Silence::Clock::now() - remote_.host_timeout;
  if (!has_greeted) loss.why += say_login_text(agent);
  start_more();
  end(agent);
}

void HostAgents::cut_starting() {
  for (auto& agent : agents_)
    if (agent.channel && !agent.life.gone()) agent.channel->wake(agent.pid);
  next_ = agents_.size();
  if (srun_) srun_->hang_up();
  for (auto& agent : agents_) {
    if (!agent.link)
      drop(agent);
    else if (!agent.life.has(AgentPhase::greeted) && !agent.host.is_this_machine)
      agent.channel->kill(agent.pid);
  }
}

std::string HostAgents::stage(const AgentState& agent) const {
  const auto& life = agent.life;
  if (life.gone() || agent.dismissed || life.has(AgentPhase::running)) return {};
  if (srun_ && !agent.link) return srun_->waiting_for();
  if (life.phase() == AgentPhase::waiting) return "waiting for other hosts' logins";
  if (!life.has(AgentPhase::reached)) {
    const auto doing = agent.channel->status();
    return "no answer: still " + (doing.empty() ? "connecting or logging in" : doing) +
           say_login_text(agent);
  }
  if (!life.has(AgentPhase::greeted))
    return "hvdrun there does not get ready: it looks for GPUs and cores";
  return launched_ ? "its ranks are still being started" : "ready, waiting for the others";
}

// --- ending --------------------------------------------------------------------------------------

std::vector<std::string> HostAgents::kill() {
  std::vector<std::string> hosts;
  for (auto& agent : agents_) {
    if (agent.life.gone()) continue;
    hosts.push_back(agent.host.name);
    if (agent.channel) agent.channel->kill(agent.pid);
  }
  return hosts;
}

// Removes what is left on other hosts whose agent and guard were killed together. The login also
// shows whether a host whose connection dropped can be used again.
void HostAgents::clean_up_others() {
  if (srun_) srun_->reap(kSrunPatience);
  const auto has_left = [](const AgentState& agent) {
    const auto& life = agent.life;
    const auto cause = life.loss().cause;
    const bool has_run = life.has(AgentPhase::greeted) ||
                         (life.has(AgentPhase::reached) && cause != Loss::Cause::job_stopped);
    return !agent.host.is_this_machine && has_run && !life.done() &&
           cause != Loss::Cause::host_silent;
  };
  if (srun_) {
    std::vector<std::size_t> hosts;
    for (std::size_t i = 0; i < by_srun_.size(); ++i)
      if (has_left(*by_srun_[i])) hosts.push_back(i);
    if (hosts.empty() || !srun_->clean_up(hosts, kLastResortPatience)) return;
    for (const auto host : hosts) loss_of(*by_srun_[host]).cleared_away = true;
    return;
  }
  std::deque<AgentState*> waiting;
  for (auto& agent : agents_)
    if (has_left(agent)) waiting.push_back(&agent);
  while (!waiting.empty()) {
    // As many logins through one ssh server as at the start.
    std::map<std::string, std::size_t> logins;
    std::vector<AgentState*> agents;
    std::vector<std::vector<std::string>> commands;
    std::erase_if(waiting, [&](AgentState* agent) {
      const auto facts = agent->channel->ssh_facts();
      if (!facts.server.empty() && ++logins[facts.server] > LoginGate::kMost) return false;
      auto options = ssh_options();
      options.overrides = facts.overrides;
      agents.push_back(agent);
      commands.push_back(ssh_command(ssh_target(agent->host), options,
                                     cleanup_arguments(options_.job_id, {agent->number})));
      return true;
    });
    const auto ended_well = run_children(commands, kLastResortPatience);
    for (std::size_t i = 0; i < agents.size(); ++i)
      loss_of(*agents[i]).cleared_away = ended_well[i];
  }
}

std::vector<std::string> HostAgents::reap(const std::vector<pid_t>& spare) {
  clean_up_others();
  std::vector<std::string> leftovers;
  for (auto& agent : agents_) {
    const bool ended_well = agent.channel && agent.channel->wait();
    if (!agent.host.is_this_machine || (agent.life.done() && ended_well)) continue;
    // The guard may have been killed together with its agent, or a process may not end. This
    // process is a subreaper, so it is now the parent of what is left.
    const auto folders = JobFolders::of(options_.job_id, agent.number);
    for (const auto& left :
         kill_job_processes(::getpid(), folders.cookie(), kLastResortPatience, spare))
      leftovers.push_back(to_string(left) + " on " + agent.host.name);
    folders.clean_up();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
  return leftovers;
}

}  // namespace hvdrun
