#include "job/running.hpp"

#include "base/severity.hpp"
#include "common/text.hpp"
#include "job/agent_table.hpp"
#include "job/host_addresses.hpp"
#include "job/launch.hpp"

#include <chrono>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// After a rank has succeeded and others run on, this long before it is said.
constexpr milliseconds kEarlyExitNote{5000};

}  // namespace

Running::Running(AttemptParts& attempt)
    : attempt_(attempt),
      note_timer_(attempt.job.loop, [this] { on_early_exit(); }),
      exit_timer_(attempt.job.loop, [this] { on_exit_timeout(); }),
      cause_timer_(attempt.job.loop, [this] { attempt_.stop({}); }) {
  if (attempt.job.spec.elastic.min_ranks) membership_.emplace(attempt);
}

void Running::leave() {
  note_timer_.cancel();
  exit_timer_.cancel();
  cause_timer_.cancel();
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
  auto [addresses, warnings] = host_addresses(agents, attempt_.placement());
  for (const auto& text : warnings) attempt_.note(warning_text(text));
  const auto ports = ports_of(agents, std::move(addresses));
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
  for (std::size_t host = 0; host < agents.size(); ++host) {
    auto& agent = agents.on_host(host);
    auto message = launch_message(spec, attempt_.job.plan, attempt_.identity, attempt_.job.context,
                                  host, agent.interfaces, attempt_.terminal.settings());
    message.progress_interval = progress_interval(output.progress_style());
    HVD_TRY(const auto packed, pack_for(agent.host.name, message));
    agent.send(FrameType::launch, packed);
  }
  return {};
}

void Running::on_started() {
  if (have_started_ || !attempt_.agents->all(AgentPhase::running)) return;
  have_started_ = true;
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
  if (rank.stopped_by_us && !failed && !is_ended)
    return attempt_.stop(
        {EndKind::agent_lost,
         fmt::format("rank {} on {} was stopped by its agent", rank.placement.rank, rank.host),
         kExitLauncher});
  if (membership_) return on_member_exited(rank);
  const auto& table = attempt_.table;
  if (failed && failed_for_a_peer(rank) && !table.all_ended()) {
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
    note_timer_.cancel();
    exit_timer_.cancel();
    attempt_.agents->send_all(FrameType::release);
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
  if (!stalls_.asks() || stall_answers_.awaited()) return;
  stall_answers_.expect(attempt_.agents->size());
  attempt_.agents->ask_for_states(StatesPurpose::stalls);
}

void Running::on_stall_states(const StatesMessage& message) {
  const auto& ranks = attempt_.table.ranks();
  auto states = stall_answers_.add(message, ranks.size());
  if (!states) return;
  if (membership_) states = membership_->members_among(std::move(*states));
  for (const auto& line : stalls_.explain(*states, ranks, attempt_.job.loop.now()))
    attempt_.note(line);
}

void Running::on_progress(std::size_t host_index, const ProgressMessage& message) {
  attempt_.status_line.take(host_index, message);
}

bool Running::may_end(const AgentState& agent) const {
  return attempt_.table.all_ended_on(agent.host_index);
}

void Running::on_lost(const AgentState& agent, std::string why) {
  attempt_.stop(lost_agent(agent, why));
}

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
