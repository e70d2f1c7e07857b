#include "job/host_agents.hpp"

#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "base/version.hpp"
#include "channels/executed_agent.hpp"
#include "common/text.hpp"
#include "job/srun_starter.hpp"
#include "job/ssh_starter.hpp"
#include "protocol/messages.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kLastResortPatience{5};

// Returns what is likely if the host answers, but does not get what is sent to it: on the way large
// packets are lost, without a word to this host (RFC 2923, section 2.1).
std::string say_lost_packets(const AgentState& agent) {
  if (!agent.channel->sends_in_vain()) return {};
  return fmt::format(
      "; what was sent to it does not arrive: the host has gone, or large packets are lost on the "
      "way (MTU): compare `ping {0}` and `ping -M do -s 1472 {0}`",
      agent.host.name);
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
  std::vector<AgentState*> others;
  for (auto& agent : agents_)
    if (!agent.host.is_this_machine) others.push_back(&agent);
  beat_interval_ = Silence::interval(remote_.host_timeout, others.empty());
  beat_.start(beat_interval_);
  if (others.empty()) return {};
  make_starter(start, others);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  descriptors_.emplace(limit.rlim_cur + starter_->descriptors_to_start());
  HVD_CHECK(check_descriptors(
      starter_->steady_descriptors() + starter_->descriptors_of_one_start() + kDescriptorsForLater,
      plural(others.size(), "agent") + " of other hosts"));
  starter_->start();
  return heartbeats_.start(Silence::interval(remote_.host_timeout));
}

bool HostAgents::start_again(AgentState& lost) {
  if (!lost.host.is_this_machine) return starter_->start_again(lost);
  auto& agent = add_next(lost);
  begin(agent);
  auto channel = start_executed_agent(loop_, channel_events(agent));
  if (channel)
    agent.channel = std::move(*channel);
  else
    start_failed(agent, channel.error().message);
  return true;
}

AgentState& HostAgents::add_next(const AgentState& lost) {
  ranks_.push_back(ranks_[lost.number]);
  return add_successor(lost);
}

void HostAgents::make_starter(const Start& start, std::vector<AgentState*> agents) {
  StarterContext context{loop_,           remote_,   caller_,       agent_path_,
                         options_.job_id, sendings_, start.timeout, start.survives_hosts};
  AgentStarter::Events events{
      [](AgentState& agent) { begin(agent); },
      [this](AgentState& agent) { return channel_events(agent); },
      [this](AgentState& agent, std::string why) { start_failed(agent, std::move(why)); },
      [this](const AgentState& lost) -> AgentState& { return add_next(lost); }};
  if (start.started_by == StartedBy::srun)
    starter_ =
        std::make_unique<SrunStarter>(std::move(context), std::move(agents), std::move(events));
  else
    starter_ =
        std::make_unique<SshStarter>(std::move(context), std::move(agents), std::move(events));
}

void HostAgents::start_failed(AgentState& agent, std::string why) {
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
  if (agent.host.is_this_machine && !agent.predecessor) return;
  ConfigureMessage configure;
  configure.version = kVersion;
  configure.job_id = options_.job_id;
  configure.agent = agent.number;
  configure.restart_count = options_.restart_count;
  configure.pmix = options_.pmix;
  configure.local_ranks = ranks_[agent.number];
  configure.host_timeout = remote_.host_timeout;
  configure.names = options_.names;
  if (!agent.host.is_this_machine) configure.devices = remote_.devices;
  configure.predecessor = agent.predecessor;
  agent.send(FrameType::configure, pack(configure));
  if (!agent.host.is_this_machine) heartbeats_.add(remote_link);
}

// --- while they live -----------------------------------------------------------------------------

void HostAgents::on_frame(AgentState& agent, const Frame& frame) {
  if (reach(agent)) agent.channel->on_reached();
  if (agent.silence) agent.silence->heard();
  if (std::exchange(agent.unresponsive, false)) events_.on_text(agent, "the agent answers again");
  if (frame.type == FrameType::alive) return beat_with_sign_of_life();
  if (frame.type == FrameType::died) return explain_loss(agent, std::string(frame.payload));
  const bool was_new = !agent.life.has(AgentPhase::greeted);
  events_.on_frame(agent, frame);
  if (!was_new || !agent.life.has(AgentPhase::greeted)) return;
  agent.silence.emplace(remote_.host_timeout, Silence::Clock::now(), agent.host.is_this_machine);
  if (const auto text = agent.channel->note(); !text.empty()) events_.on_text(agent, text);
  if (!starter_) return;
  const bool all_greeted = std::ranges::all_of(agents_, [](const AgentState& each) {
    return each.host.is_this_machine || each.life.has(AgentPhase::greeted);
  });
  if (all_greeted) starter_->on_all_greeted();
  starter_->start_more();
}

// A sign of life has woken this process. The beat takes place now, so that its timer need not wake
// the process again.
void HostAgents::beat_with_sign_of_life() {
  if (Silence::Clock::now() - beaten_ >= beat_interval_ / 2) on_beat();
}

// Silence alone does not mean that an agent is lost: it may be stopped, swapped out, or wait for a
// file system. Then its host's kernel still answers. A host that is down or cut off does not.
void HostAgents::on_beat() {
  const auto now = Silence::Clock::now();
  beaten_ = now;
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
  beat_.start(beat_interval_ + beat_interval_ / 2);
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
  if (starter_) starter_->start_more();
  end(agent);
}

void HostAgents::cut_starting() {
  for (auto& agent : agents_)
    if (agent.channel && !agent.life.gone()) agent.channel->wake(agent.pid);
  if (starter_) starter_->stop_starting();
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
  if (!agent.link && starter_)
    if (auto waiting = starter_->waiting_for(); !waiting.empty()) return waiting;
  if (life.phase() == AgentPhase::waiting) return "waiting for other hosts' logins";
  if (!life.has(AgentPhase::reached)) {
    const auto doing = agent.channel->status();
    return "no answer: still " + (doing.empty() ? "connecting or logging in" : doing) +
           say_login_text(agent) + say_lost_packets(agent);
  }
  if (!life.has(AgentPhase::greeted))
    return "hvdrun there does not get ready: it looks for GPUs and cores";
  if (!launched_) return "ready, waiting for the others";
  return "its ranks are still being started" + say_lost_packets(agent);
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

// Removes what is left on other hosts whose agent and guard were killed together. A new login also
// shows whether a host whose connection dropped can be used again.
void HostAgents::clean_up_others() {
  if (!starter_) return;
  starter_->reap();
  std::vector<AgentState*> agents;
  for (auto& agent : agents_) {
    const auto& life = agent.life;
    const auto cause = life.loss().cause;
    const bool has_run = life.has(AgentPhase::greeted) ||
                         (life.has(AgentPhase::reached) && cause != Loss::Cause::job_stopped);
    if (!agent.host.is_this_machine && has_run && !life.done() && cause != Loss::Cause::host_silent)
      agents.push_back(&agent);
  }
  if (agents.empty()) return;
  const auto confirmed = starter_->clean_up(agents, kLastResortPatience);
  for (std::size_t i = 0; i < agents.size(); ++i) loss_of(*agents[i]).cleared_away = confirmed[i];
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
