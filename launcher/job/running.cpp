#include "job/running.hpp"

#include "base/severity.hpp"
#include "common/text.hpp"
#include "job/agent_table.hpp"
#include "job/hang_watch.hpp"
#include "job/host_addresses.hpp"
#include "job/launch.hpp"
#include "job/rank_states.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// After a rank has succeeded and others run on, this long before it is said.
constexpr milliseconds kEarlyExitNote{5000};

// Returns whether it takes the place of a lost agent, and has no ranks yet.
bool is_not_ready_again(const AgentState& agent) {
  return agent.predecessor && !agent.life.has(AgentPhase::running);
}

// Returns "was lost: the host has not answered for 5 s (--host-timeout)", or "was lost with the
// agent: killed by SIGKILL".
std::string how_lost(const AgentState& agent, const std::string& why) {
  if (agent.life.loss().cause == Loss::Cause::host_silent) return "was lost: " + why;
  return "was lost with the agent" + (why.empty() ? "" : ": " + why);
}

}  // namespace

Running::Running(AttemptParts& attempt)
    : attempt_(attempt),
      stall_question_(attempt.job.loop),
      note_timer_(attempt.job.loop, [this] { on_early_exit(); }),
      exit_timer_(attempt.job.loop, [this] { on_exit_timeout(); }),
      cause_timer_(attempt.job.loop, [this] { attempt_.stop({}); }),
      failed_timer_(attempt.job.loop, [this] { give_up_failed(); }) {
  if (attempt.job.spec.elastic.min_ranks) membership_.emplace(attempt);
}

void Running::leave() {
  is_over_ = true;
  note_timer_.cancel();
  exit_timer_.cancel();
  cause_timer_.cancel();
  failed_timer_.cancel();
  stall_question_.drop();
  if (membership_) membership_->leave();
}

// --- starting the ranks --------------------------------------------------------------------------

// Which ports are free only the hosts know. An agent may have sent some with its first frame.
Result<void> Running::begin() {
  auto& agents = *attempt_.agents;
  const auto& spec = attempt_.job.spec;
  if (hold_all_ports(agents, spec, attempt_.placement())) return launch();
  for (std::size_t host = 0; host < agents.size(); ++host)
    if (const auto wanted = ports_to_hold(spec, attempt_.placement(), host); wanted.count > 0)
      agents.on_host(host).send(FrameType::hold_ports, pack(wanted));
  return {};
}

Result<void> Running::on_ports(AgentState& agent, PortsMessage ports) {
  if (agent.dismissed || attempt_.router) return {};
  const auto& spec = attempt_.job.spec;
  const auto wanted = ports_to_hold(spec, attempt_.placement(), agent.host_index).count;
  if (static_cast<int>(ports.ports.size()) != wanted)
    return fail(fmt::format("the agent on {} holds {}, not {}", agent.host.name,
                            plural(ports.ports.size(), "port"), wanted));
  agent.ports = std::move(ports.ports);
  return hold_all_ports(*attempt_.agents, spec, attempt_.placement()) ? launch() : Result<void>{};
}

Result<void> Running::launch() {
  auto& agents = *attempt_.agents;
  const auto& spec = attempt_.job.spec;
  auto& output = attempt_.job.output;
  auto [addresses, number, warnings] = host_addresses(agents, attempt_.placement());
  for (const auto& text : warnings) attempt_.note(warning_text(text));
  auto ports = ports_of(agents, std::move(addresses));
  ports.number = std::move(number);
  attempt_.identity = with_ports(std::move(attempt_.identity), ports, spec);
  if (const auto text = missing_pmix_text(agents); !text.empty()) {
    attempt_.identity.pmix_namespace.clear();  // ranks with PMIx would wait for those without
    attempt_.note(warning_text(text));
  }
  if (!output.congested()) agents.return_credit();
  if (spec.verbosity > 0)
    for (const auto& line : agent_table(agents)) attempt_.note(line);
  attempt_.router.emplace(
      agents.size(), [&agents](std::size_t host, FrameType type, const SharedPayload& payload) {
        agents.on_host(host).link->send_shared(type, static_cast<std::uint32_t>(host), payload);
      });
  for (std::size_t host = 0; host < agents.size(); ++host)
    HVD_CHECK(launch_on(agents.on_host(host)));
  return {};
}

// An agent that was started again gets its ranks later.
Result<void> Running::launch_on(AgentState& agent) {
  const auto& job = attempt_.job;
  auto message = launch_message(job.spec, job.plan, attempt_.identity, job.context,
                                agent.host_index, agent.interfaces, attempt_.terminal.settings());
  message.progress_interval = progress_interval(job.output.progress_style());
  if (agent.predecessor) leave_out_ranks(job.context, message);
  HVD_TRY(const auto packed, pack_for(agent.host.name, message));
  agent.send(FrameType::launch, packed);
  return {};
}

Result<void> Running::on_greeted(AgentState& agent) {
  if (!agent.predecessor) return {};
  attempt_.note(fmt::format("the agent on {} was started again", agent.host.name));
  if (!attempt_.job.output.congested()) attempt_.agents->return_credit();
  return launch_on(agent);
}

void Running::on_started(const AgentState& agent) {
  if (agent.predecessor && membership_) return membership_->agents_changed();
  begin_if_all_started();
}

void Running::begin_if_all_started() {
  if (!attempt_.agents->all(AgentPhase::running) || std::exchange(input_started_, true)) return;
  attempt_.start_timer.cancel();
  attempt_.status_line.started();
  start_input();
  if (membership_) membership_->begin();
}

void Running::start_input() {
  const auto& spec = attempt_.job.spec;
  const int size = attempt_.placement().size;
  auto& terminal = attempt_.terminal;
  terminal.begin(size);
  if (inherits_input(spec, attempt_.job.plan)) return;
  const auto send = [this](int rank, FrameType type, std::string_view payload) {
    attempt_.agents->on_host(attempt_.table.host_index(rank)).send(type, payload);
  };
  attempt_.job.input.start(
      input_receivers(spec, size),
      {[this, &terminal, send](int rank, std::string_view bytes) {
         if (terminal.is_of(rank)) terminal.take_keys(bytes, attempt_.job.loop.now());
         send(rank, FrameType::input, pack_input(static_cast<std::uint32_t>(rank), bytes));
       },
       [this, &terminal, send](int rank) {
         if (terminal.is_of(rank))
           return attempt_.stop(
               {EndKind::interrupted, "the terminal has gone", kExitSignalBase + SIGHUP});
         send(rank, FrameType::input_closed, pack_number(static_cast<std::uint32_t>(rank)));
       }});
}

void Running::on_start_timeout() {
  attempt_.stop_for_start_timeout({});
}

// --- while they run ------------------------------------------------------------------------------

void Running::on_exited(const RankReport& rank) {
  const bool failed = failed_by_itself(rank);
  const bool is_ended = membership_ && membership_->is_lost(rank.placement.rank);
  // Its agent has ended it, and what that said of it is lost.
  if (rank.stopped_by_us && !failed && !is_ended) {
    const Error error{
        fmt::format("rank {} on {} was stopped by its agent", rank.placement.rank, rank.host),
        kExitLauncher};
    auto& agent = attempt_.agents->on_host(attempt_.table.host_index(rank.placement.rank));
    if (!continues_without(agent, error)) return attempt_.stop(agent_failure(error));
  }
  if (membership_) return on_member_exited(rank);
  const auto& table = attempt_.table;
  const int number = rank.placement.rank;
  const bool is_way_out = !rank.abort_code && (rank.signal == 0 || rank.signal == SIGABRT);
  const bool is_for_a_peer =
      failed_for_a_peer(rank) ||
      (is_way_out && ended_with_peer_error(rank, attempt_.job.output.last_stderr(number)));
  if (failed && !is_for_a_peer) attempt_.job.output.failed(number);
  if (failed && is_for_a_peer && !table.all_ended()) {
    if (!cause_timer_.pending()) cause_timer_.start(kPeersEnd);
    return;
  }
  if (failed || (table.all_ended() && cause_timer_.pending())) return attempt_.stop({});
  on_success();
}

void Running::on_member_exited(const RankReport& rank) {
  const bool has_joined = membership_->has_joined(rank.placement.rank);
  if ((succeeded(rank) && has_joined) || attempt_.table.all_ended()) on_success();
  membership_->ended(rank);
}

// A rank has succeeded, or is the last one to end.
void Running::on_success() {
  if (attempt_.table.all_ended()) {
    if (late_loss_) return attempt_.stop(*late_loss_);
    note_timer_.cancel();
    exit_timer_.cancel();
    attempt_.agents->send_all(FrameType::release);
    forget_unstarted_agents();
  } else if (++succeeded_ == 1) {
    note_timer_.start(kEarlyExitNote);
    const auto& timeout = attempt_.job.spec.stop.exit_timeout;
    if (timeout) exit_timer_.start(*timeout);
  }
}

Result<void> Running::on_member(const AgentState& agent, const Frame& frame) {
  if (!membership_) return fail("an agent sent a frame of a member, and there are none");
  return membership_->take(agent, frame);
}

void Running::on_resumed() {
  if (membership_) membership_->resume();
}

void Running::on_stalls(const StallsMessage& stalls) {
  for (const auto& line : stalls_.take(stalls, attempt_.job.loop.now())) attempt_.note(line);
  if (!stalls_.asks() || stall_question_.is_open()) return;
  stall_question_.ask(*attempt_.questions, {.wanted = Wanted::pages}, kAnswerTime,
                      [this](const Answers& answers) { explain_stalls(answers); });
}

void Running::explain_stalls(const Answers& answers) {
  auto states = states_in(answers, attempt_.table);
  if (membership_) states = membership_->members_among(std::move(states));
  const auto lines = stalls_.explain(states, silent_ranks(answers, attempt_.table),
                                     attempt_.table.ranks(), attempt_.job.loop.now());
  for (const auto& line : lines) attempt_.note(line);
  if (!lines.empty()) attempt_.hang->on_stall();
}

void Running::on_progress(std::size_t host_index, const ProgressMessage& message) {
  attempt_.status_line.take(host_index, message);
}

// An agent that has failed was lost, though it has ended its ranks in order.
bool Running::may_end(const AgentState& agent) const {
  return attempt_.table.all_ended_on(agent.host_index) &&
         std::ranges::find(failed_, &agent, &Failed::agent) == failed_.end();
}

// --- lost agents ---------------------------------------------------------------------------------

void Running::on_lost(AgentState& agent, std::string why) {
  const bool were_launched = attempt_.router.has_value();
  auto cause = lost_agent(agent, why);
  if (!membership_ || !were_launched) return attempt_.stop(std::move(cause));
  const auto failed = std::ranges::find(failed_, &agent, &Failed::agent);
  const bool had_failed = failed != failed_.end();
  const bool had_ranks = had_failed ? failed->had_ranks : agent.life.phase() == AgentPhase::running;
  if (had_failed)
    failed_.erase(failed);
  else if (is_not_ready_again(agent))
    note_not_again(agent, why);
  const auto host = agent.host_index;
  for (const int rank : attempt_.table.lose_host(host)) {
    attempt_.job.input.remove(rank, 0);
    if (attempt_.terminal.is_of(rank)) attempt_.terminal.end();
    for (const auto stream : {Stream::out, Stream::err}) attempt_.job.output.close(rank, stream);
  }
  attempt_.status_line.lose_host(host);
  // What they have written last may be lost with the agent.
  if (membership_->has_finished_on(host) && !agent.life.done()) late_loss_ = cause;
  if (had_ranks) consider_another_agent(agent);
  lose_members(agent, cause, how_lost(agent, why));
  if (is_over_) return;  // too few ranks are left
  if (agent.predecessor || had_failed) membership_->agents_changed();
  if (is_over_) return;
  if (attempt_.table.all_ended()) on_success();
  begin_if_all_started();
}

void Running::note_not_again(const AgentState& agent, const std::string& why) const {
  attempt_.note(warning_text(
      fmt::format("the agent on {} could not be started again{}{}: no new ranks can run there",
                  agent.host.name, why.empty() ? "" : ": ", why)));
}

// A host that does not answer may still run its old ranks, and gets no other agent. On one that
// answers, the next agent ends what the lost one has left.
void Running::consider_another_agent(AgentState& lost) {
  if (lost.life.loss().cause != Loss::Cause::agent) return;
  if (membership_->wants_another_agent(lost.host_index)) attempt_.agents->start_again(lost);
}

// All ranks have ended. One that has no link yet takes no message.
void Running::forget_unstarted_agents() {
  const bool one_is_starting =
      std::ranges::any_of(attempt_.agents->every(), [](const AgentState& agent) {
        return agent.predecessor && !agent.life.gone() && !agent.life.has(AgentPhase::greeted);
      });
  if (!one_is_starting) return;
  attempt_.agents->stop_starting(false);
  if (attempt_.agents->all_gone()) attempt_.job.loop.stop();
}

// The agent still ends its ranks, and reports their ends.
bool Running::continues_without(AgentState& agent, const Error& error) {
  const bool were_launched = attempt_.router.has_value();
  auto cause = agent_failure(error);
  if (!membership_ || !were_launched || cause.kind != EndKind::agent_lost) return false;
  if (std::ranges::count(failed_, &agent, &Failed::agent) > 0) return true;
  failed_.push_back({&agent, agent.life.phase() == AgentPhase::running});
  if (is_not_ready_again(agent)) note_not_again(agent, error.message);
  agent.send(FrameType::kill);
  failed_timer_.start(kAgentPatience);
  lose_members(agent, cause, "was lost: " + error.message);
  return true;
}

void Running::lose_members(const AgentState& agent, const StopCause& cause,
                           const std::string& how) {
  const auto& heard = agent.life.loss().host_heard;
  const std::chrono::duration<double> time =
      heard.value_or(attempt_.job.loop.now()) - attempt_.begun;
  membership_->lose_host(agent.host_index, cause.reason, time.count(), how);
}

void Running::give_up_failed() {
  for (const auto& failed : std::vector(failed_))  // a copy: on_lost() removes them
    if (!failed.agent->life.gone()) attempt_.agents->give_up(*failed.agent, "it does not end");
}

// --- time limits ---------------------------------------------------------------------------------

void Running::on_early_exit() {
  const auto running = attempt_.table.running();
  attempt_.note(fmt::format("{} still run{}; the others have {}", describe_ranks(running),
                            running.size() == 1 ? "s" : "",
                            succeeded_ == attempt_.table.ended() ? "succeeded" : "ended"));
}

void Running::on_exit_timeout() {
  attempt_.stop({EndKind::exit_timeout,
                 fmt::format("{} still ran {} after the first had ended (--exit-timeout)",
                             describe_ranks(attempt_.table.running()),
                             seconds_text(*attempt_.job.spec.stop.exit_timeout)),
                 kExitTimeout});
}

}  // namespace hvdrun
