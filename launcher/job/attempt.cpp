#include "job/attempt.hpp"

#include "base/event_loop.hpp"
#include "base/severity.hpp"
#include "base/version.hpp"
#include "common/text.hpp"
#include "job/agent_table.hpp"
#include "job/host_addresses.hpp"
#include "job/launch.hpp"
#include "job/plan.hpp"
#include "job/restart.hpp"
#include "model/rank_set.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// After a rank has succeeded and others run on, this long before it is said.
constexpr milliseconds kEarlyExitNote{5000};
// An agent ends its ranks within the grace and its own rounds of SIGKILL. One that has not ended
// this much later hangs (in PMIx, in the kernel), and is killed.
constexpr milliseconds kAgentPatience{20000};
constexpr milliseconds kKillPatience{2000};  // then it cannot even be killed
// After one host could not be reached: so that others with the same trouble are told in one line.
constexpr milliseconds kMoreTrouble{1000};
// After a rank has failed because another one left: that one is about to end, and is to blame.
constexpr milliseconds kPeersEnd{1000};

std::string seconds_text(milliseconds time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

StopCause agent_failure(const Error& error) {
  return {kind_of_agent_failure(error.exit_code), error.message, error.exit_code};
}

}  // namespace

Attempt::Attempt(const JobParts& parts, const JobIdentity& identity)
    : parts_(parts),
      identity_(identity),
      table_(Placement{}, parts.loop.now()),
      agents_(parts.make_agents(
          {[this](AgentState& agent, const Frame& frame) { on_frame(agent, frame); },
           [this](AgentState& agent, const std::string& text) {
             if (agent.life.has(AgentPhase::greeted)) note(agent.host.name + ": " + text);
           },
           [this](AgentState& agent) { on_agent_gone(agent); }})),
      status_line_(parts.loop, *agents_, table_, parts.output),
      terminal_(parts.spec.output.terminal_rank, parts.terminal, parts.output,
                [this](const WindowMessage& window) {
                  const auto host = table_.host_index(static_cast<int>(window.rank));
                  agents_->on_host(host).send(FrameType::window, pack_window(window));
                }),
      start_timer_(parts.loop, [this] { on_start_timeout(); }),
      unreached_timer_(parts.loop, [this] { give_up_starting(); }),
      note_timer_(parts.loop, [this] { on_early_exit(); }),
      exit_timer_(parts.loop, [this] { on_exit_timeout(); }),
      cause_timer_(parts.loop, [this] { stop({}); }),
      first_signal_timer_(parts.loop, [this] { shorten_stop("Ctrl-C"); }),
      agent_timer_(parts.loop, [this] { on_agents_hang(); }),
      begun_(parts.loop.now()),
      exception_watch_(
          parts.loop, table_, [this](int rank) { return parts_.output.last_stderr(rank); },
          [this](const std::string& text) { note(warning_text(text)); }) {}

Result<AttemptEnd> Attempt::run() {
  Agents::Start start;
  auto& options = start.options;
  options.job_id = identity_.folder_id;
  options.restart_count = identity_.restart_count;
  options.pmix = parts_.spec.pmix;
  start.hosts = hosts_to_start(parts_.plan);
  ask_for_facts(parts_.spec, start.hosts, options);
  for (const auto& host : start.hosts)
    start.ranks.push_back(expected_ranks(parts_.plan, host.name));
  start.from = parts_.plan.allocation.from;
  start.timeout = std::chrono::ceil<std::chrono::seconds>(parts_.spec.start_timeout);
  if (is_final(placement())) HVD_CHECK(begin_ranks());
  if (is_final(placement()) && placement().hosts.size() == 1) {  // saves a question and its answer
    const auto wanted = ports_to_hold(parts_.spec, placement(), 0);
    options.ports = wanted.count;
    options.master_port = wanted.master_port;
  }
  HVD_CHECK(agents_->start(std::move(start)));
  start_timer_.start(parts_.spec.start_timeout);
  status_line_.begin();
  if (!agents_->all_gone()) parts_.loop.run();
  return finish();
}

// --- beginning -----------------------------------------------------------------------------------

// Ranks start when every host has answered and it is known which is where.
void Attempt::consider_launching() {
  if (launched_ || stopping() || !unreached_.empty() || !agents_->all(AgentPhase::greeted)) return;
  if (auto settled = settle_plan(); !settled) return stop(agent_failure(settled.error()));
  launched_ = true;
  if (auto asked = ask_for_ports(); !asked) stop(agent_failure(asked.error()));
}

Result<void> Attempt::settle_plan() {
  if (!is_final(placement())) {
    for (const auto& agent : agents_->every())
      if (agent.host.inventory)
        take_inventory(parts_.spec, agent.host.name, *agent.host.inventory, parts_.plan);
    HVD_TRY(const auto joined, join_same_hosts(*agents_, parts_.plan.allocation));
    for (const auto& line : joined) note(line);
    HVD_CHECK(place_ranks(parts_.spec, parts_.plan));
    HVD_CHECK(check_named_ranks(parts_.spec, placement().size));
    for (const auto& line : plan_lines(parts_.spec, parts_.plan)) note(line);
    HVD_CHECK(begin_ranks());
  }
  agents_->assign(placement());
  return find_interfaces(*agents_, parts_.spec.remote.network_interface);
}

Result<void> Attempt::begin_ranks() {
  table_ = RankTable(placement(), begun_);
  return parts_.output.begin(placement());
}

// Which ports are free only the hosts know. An agent may have sent some with its first frame.
Result<void> Attempt::ask_for_ports() {
  if (hold_all_ports(*agents_, parts_.spec, placement())) return launch();
  for (std::size_t host = 0; host < agents_->size(); ++host)
    if (const auto wanted = ports_to_hold(parts_.spec, placement(), host); wanted.count > 0)
      agents_->on_host(host).send(FrameType::hold_ports, pack(wanted));
  return {};
}

Result<void> Attempt::on_ports(AgentState& agent, PortsMessage ports) {
  if (stopping() || agent.dismissed || router_) return {};
  const auto wanted = ports_to_hold(parts_.spec, placement(), agent.host_index).count;
  if (static_cast<int>(ports.ports.size()) != wanted)
    return fail(fmt::format("the agent on {} holds {}, not {}", agent.host.name,
                            plural(ports.ports.size(), "port"), wanted));
  agent.ports = std::move(ports.ports);
  return hold_all_ports(*agents_, parts_.spec, placement()) ? launch() : Result<void>{};
}

Result<void> Attempt::launch() {
  auto [addresses, warnings] = host_addresses(*agents_, placement());
  for (const auto& text : warnings) note(warning_text(text));
  const auto ports = ports_of(*agents_, std::move(addresses));
  identity_ = with_ports(std::move(identity_), ports, parts_.spec);
  if (const auto text = missing_pmix_text(*agents_); !text.empty()) {
    identity_.pmix_namespace.clear();  // ranks with PMIx would wait for those without
    note(warning_text(text));
  }
  if (!parts_.output.congested()) agents_->return_credit();
  if (parts_.spec.verbosity > 0)
    for (const auto& line : agent_table(*agents_)) note(line);
  router_.emplace(
      agents_->size(), [this](std::size_t host, FrameType type, const SharedPayload& payload) {
        agents_->on_host(host).link->send_shared(type, static_cast<std::uint32_t>(host), payload);
      });
  for (std::size_t host = 0; host < agents_->size(); ++host) {
    auto& agent = agents_->on_host(host);
    auto job = launch_message(parts_.spec, parts_.plan, identity_, parts_.context, host,
                              agent.interfaces, terminal_.settings());
    job.progress_interval = progress_interval(parts_.output.progress_style());
    HVD_TRY(const auto message, pack_for(agent.host.name, job));
    agent.send(FrameType::launch, message);
  }
  return {};
}

// --- what agents say -----------------------------------------------------------------------------

void Attempt::on_frame(AgentState& agent, const Frame& frame) {
  if (auto handled = handle(agent, frame); !handled) stop(agent_failure(handled.error()));
}

Result<void> Attempt::handle(AgentState& agent, const Frame& frame) {
  if (router_ && PmixRouter::is_for(frame.type)) return router_->take(agent.host_index, frame);
  switch (frame.type) {
    case FrameType::output:
    case FrameType::output_closed:
      return on_output(agent, frame);
    case FrameType::hello: {
      HVD_TRY(const auto hello, parse<HelloMessage>(frame.payload));
      return on_hello(agent, hello);
    }
    case FrameType::ports: {
      HVD_TRY(auto ports, parse<PortsMessage>(frame.payload));
      return on_ports(agent, std::move(ports));
    }
    case FrameType::started: {
      HVD_TRY(const auto started, parse<StartedMessage>(frame.payload));
      on_started(agent, started);
      return {};
    }
    case FrameType::exited: {
      HVD_TRY(const auto exited, parse<ExitedMessage>(frame.payload));
      return on_exited(exited);
    }
    case FrameType::aborted: {
      HVD_TRY(const auto aborted, parse<AbortedMessage>(frame.payload));
      table_.aborted(aborted);
      stop({});
      return {};
    }
    case FrameType::input_credit: {
      HVD_TRY(const auto credit, parse_input_credit(frame.payload));
      parts_.input.add_credit(static_cast<int>(credit.rank), credit.bytes);
      return {};
    }
    case FrameType::states: {
      HVD_TRY(const auto states, parse<StatesMessage>(frame.payload));
      on_states(states);
      return {};
    }
    case FrameType::stalls: {
      HVD_TRY(const auto stalls, parse<StallsMessage>(frame.payload));
      on_stalls(stalls);
      return {};
    }
    case FrameType::progress: {
      HVD_TRY(const auto progress, parse<ProgressMessage>(frame.payload));
      if (!stopping()) status_line_.take(agent.host_index, progress);
      return {};
    }
    case FrameType::suspend:
      ::kill(::getpid(), SIGTSTP);  // as if the terminal were not raw
      return {};
    case FrameType::paused:
      paused_.insert(agent.host_index);
      consider_pausing();
      return {};
    case FrameType::note:
      note(std::string(frame.payload));
      return {};
    case FrameType::apart: {
      HVD_TRY(const auto apart, parse<ApartMessage>(frame.payload));
      const auto hosts = placement().hosts.size();
      if (auto line = separate_runs_.on_apart(apart, hosts, table_.ranks().size())) note(*line);
      return {};
    }
    case FrameType::failed: {
      HVD_TRY(const auto failed, parse<FailedMessage>(frame.payload));
      const bool names_host =
          agents_->size() == 1 || failed.text.find(agent.host.name) != std::string::npos;
      stop(agent_failure(
          {names_host ? failed.text : agent.host.name + ": " + failed.text, failed.exit_code}));
      return {};
    }
    case FrameType::done: {
      HVD_TRY(const auto done, parse<DoneMessage>(frame.payload));
      on_done(agent, done);
      return {};
    }
    default:
      return fail(fmt::format("an agent sent a frame of type {} that hvdrun does not know",
                              static_cast<int>(frame.type)));
  }
}

Result<void> Attempt::on_hello(AgentState& agent, const HelloMessage& hello) {
  if (hello.protocol != kProtocolVersion || hello.version != kVersion) {
    agents_->give_up(agent,
                     fmt::format("hvdrun there is version {}, here it is {}; install the same "
                                 "on both",
                                 hello.version, kVersion));
    return {};
  }
  agents_->greeted(agent, hello);
  consider_launching();
  return {};
}

void Attempt::on_started(AgentState& agent, const StartedMessage& started) {
  agents_->started(agent);
  for (const auto& [rank, pid] : started.pids) table_.started(rank, pid);
  if (stopping() || !agents_->all(AgentPhase::running)) return;
  start_timer_.cancel();
  status_line_.started();
  start_input();
}

void Attempt::start_input() {
  const auto agent_of = [this](int rank) -> AgentState& {
    return agents_->on_host(table_.host_index(rank));
  };
  terminal_.begin(placement().size);
  if (inherits_input(parts_.spec, parts_.plan)) return;
  parts_.input.start(input_receivers(parts_.spec, placement().size),
                     {[this, agent_of](int rank, std::string_view bytes) {
                        if (terminal_.is_of(rank)) terminal_.take_keys(bytes, parts_.loop.now());
                        agent_of(rank).send(FrameType::input,
                                            pack_input(static_cast<std::uint32_t>(rank), bytes));
                      },
                      [this, agent_of](int rank) {
                        if (terminal_.is_of(rank)) return on_terminal_gone();
                        agent_of(rank).send(FrameType::input_closed,
                                            pack_number(static_cast<std::uint32_t>(rank)));
                      }});
}

void Attempt::on_terminal_gone() {
  stop({EndKind::interrupted, "the terminal has gone", kExitSignalBase + SIGHUP});
}

Result<void> Attempt::on_output(AgentState& agent, const Frame& frame) {
  HVD_TRY(const auto message, parse_output(frame.payload));
  const auto rank = static_cast<int>(message.header.rank);
  if (!table_.has(rank))
    return fail(fmt::format("an agent sent output of rank {}, which does not exist", rank));
  const auto stream = message.header.stream == 2 ? Stream::err : Stream::out;
  if (frame.type == FrameType::output_closed) {
    parts_.output.close(rank, stream);
    if (terminal_.is_of(rank)) terminal_.end();
    return {};
  }
  parts_.output.write(rank, stream, message.bytes,
                      OutputTime(milliseconds(message.header.milliseconds)));
  exception_watch_.on_output(rank, stream);
  agents_->took_output(agent, message.bytes.size(), !parts_.output.congested());
  return {};
}

Result<void> Attempt::on_exited(const ExitedMessage& message) {
  HVD_TRY(const RankReport* rank, table_.exited(message, parts_.loop.now()));
  parts_.input.remove(message.rank, message.input_taken);
  if (terminal_.was_interrupted(*rank))
    stop({EndKind::interrupted, "interrupted", kExitSignalBase + SIGINT});
  judge(*rank);
  return {};
}

void Attempt::on_states(const StatesMessage& message) {
  if (message.purpose == StatesPurpose::stop) {
    for (const auto& state : message.ranks)
      if (table_.has(state.rank)) states_at_stop_.push_back(state);
  } else if (message.purpose == StatesPurpose::table) {
    for (const auto& line : states_.add(message, table_.ranks())) note(line);
  } else if (const auto ranks = stall_answers_.add(message, table_.ranks().size())) {
    for (const auto& line : stalls_.explain(*ranks, table_.ranks(), parts_.loop.now())) note(line);
  }
}

void Attempt::on_stalls(const StallsMessage& message) {
  if (stopping()) return;
  for (const auto& line : stalls_.take(message, parts_.loop.now())) note(line);
  if (!stalls_.asks() || stall_answers_.awaited()) return;
  stall_answers_.expect(agents_->size());
  ask_for_states(StatesPurpose::stalls);
}

void Attempt::ask_for_states(StatesPurpose purpose) {
  agents_->send_all(FrameType::query_states, pack_number(static_cast<std::uint32_t>(purpose)));
}

// What the end of one rank means for the others.
void Attempt::judge(const RankReport& rank) {
  if (stopping()) return;
  const bool failed = failed_by_itself(rank);
  // Its agent has ended it, and what that said of it is lost.
  if (rank.stopped_by_us && !failed)
    return stop(
        {EndKind::agent_lost,
         fmt::format("rank {} on {} was stopped by its agent", rank.placement.rank, rank.host),
         kExitLauncher});
  if (failed && failed_for_a_peer(rank) && !table_.all_ended()) {
    if (!cause_timer_.pending()) cause_timer_.start(kPeersEnd);
    return;
  }
  if (failed || (table_.all_ended() && cause_timer_.pending())) return stop({});
  if (table_.all_ended()) {
    note_timer_.cancel();
    exit_timer_.cancel();
    agents_->send_all(FrameType::release);
  } else if (table_.ended() == 1) {
    note_timer_.start(kEarlyExitNote);
    if (parts_.spec.stop.exit_timeout) exit_timer_.start(*parts_.spec.stop.exit_timeout);
  }
}

void Attempt::on_done(AgentState& agent, const DoneMessage& done) {
  agents_->done(agent);
  std::copy(done.leftovers.begin(), done.leftovers.end(), std::back_inserter(leftovers_));
  if (!done.gpus.gpus.empty())
    gpus_.push_back({agent.host.name, with_device_names(done.gpus.gpus, agent.host)});
  table_.used_gpu_memory(done.gpus);
  separate_runs_.on_done(done, agent.dismissed);
}

void Attempt::on_agent_gone(AgentState& agent) {
  if (router_ && !agent.dismissed) router_->host_lost(agent.host_index);
  // An agent that left in order, but before the end of its ranks, was lost too: without it the
  // others would wait for its ranks.
  const bool left_early =
      agent.life.done() && !stopping() && !(launched_ && table_.all_ended_on(agent.host_index));
  if ((!agent.life.done() || left_early) && !agent.dismissed) {
    auto why = agent.life.loss().why;
    if (left_early && why.empty()) why = "it ended before its ranks";
    StopCause lost{
        EndKind::agent_lost,
        fmt::format("the agent on {} was lost{}", agent.host.name, why.empty() ? "" : ": " + why),
        kExitLauncher};
    if (stopping())
      note_lost_host(agent, std::move(lost));
    else if (launched_)
      stop(std::move(lost));
    else
      on_unreached({agent.host.name, std::move(why)});
  }
  consider_pausing();
  if (agents_->all_gone()) parts_.loop.stop();
}

void Attempt::note_lost_host(const AgentState& agent, StopCause cause) {
  const auto& heard = agent.life.loss().host_heard;
  if (!heard || !launched_) return;
  const std::chrono::duration<double> time = *heard - begun_;
  if (!lost_host_ || time.count() < lost_host_->last_heard)
    lost_host_ = LostHost{time.count(), std::move(cause)};
}

// Waits a little for what is wrong with other hosts.
void Attempt::on_unreached(UnreachableHost host) {
  unreached_.push_back(std::move(host));
  if (agents_->all(AgentPhase::greeted))
    give_up_starting();
  else if (!unreached_timer_.pending())
    unreached_timer_.start(kMoreTrouble);
}

void Attempt::give_up_starting() {
  if (stopping()) return;
  for (const auto& line : unreached_lines(unreached_)) note(error_text(line));
  stop({EndKind::agent_lost, unreached_reason(unreached_), kExitLauncher});
}

// --- what the clock says -------------------------------------------------------------------------

void Attempt::on_start_timeout() {
  for (const auto& agent : agents_->every())
    if (const auto stage = agents_->stage(agent); !agent.life.gone() && !stage.empty())
      unreached_.push_back({agent.host.name, stage});
  for (const auto& line : unreached_lines(unreached_)) note(error_text(line));
  stop({EndKind::start_timeout,
        fmt::format("not all ranks had started after {} (--start-timeout)",
                    seconds_text(parts_.spec.start_timeout)),
        kExitTimeout});
}

void Attempt::on_early_exit() {
  const auto running = table_.running();
  note(fmt::format("{} still run{}; the others have succeeded", describe_ranks(running),
                   running.size() == 1 ? "s" : ""));
}

void Attempt::on_exit_timeout() {
  stop({EndKind::exit_timeout,
        fmt::format("{} still ran {} after the first had ended (--exit-timeout)",
                    describe_ranks(table_.running()), seconds_text(*parts_.spec.stop.exit_timeout)),
        kExitTimeout});
}

void Attempt::on_agents_hang() {
  if (std::exchange(agents_killed_, true)) return agents_->abandon();
  for (const auto& host : agents_->kill())
    note(warning_text(fmt::format("the agent on {} does not answer and is killed", host)));
  agent_timer_.start(kKillPatience);
}

// --- what the user says --------------------------------------------------------------------------

void Attempt::on_signal(int signal) {
  switch (signal) {
    case SIGQUIT:
      states_.expect(agents_->size());
      return ask_for_states(StatesPurpose::table);
    case SIGTSTP:
      pausing_ = true;
      return agents_->send_all(FrameType::pause);
    case SIGCONT:
      pausing_ = false;
      status_line_.show();
      if (!stopping()) terminal_.resume();
      return agents_->send_all(FrameType::resume);
    case SIGWINCH:
      return terminal_.resize();
    default:
      return send_user_signal(signal);
  }
}

void Attempt::send_user_signal(int signal) {
  if (!agents_->all(AgentPhase::running))
    note(warning_text(signal_name(signal) + " came before all ranks had started; those miss it"));
  agents_->send_signal(signal);
}

// The shell sees us stopped once all ranks are; SIGCONT goes on in on_signal().
void Attempt::consider_pausing() {
  if (!pausing_ || !std::ranges::all_of(agents_->every(), [this](const AgentState& agent) {
        return agent.life.gone() || agent.dismissed || paused_.contains(agent.host_index);
      }))
    return;
  pausing_ = false;
  paused_.clear();
  parts_.output.status({});
  parts_.output.flush(milliseconds(0));
  terminal_.pause();
  ::kill(::getpid(), SIGSTOP);
}

// --- ending --------------------------------------------------------------------------------------

void Attempt::stop(StopCause cause) {
  if (stopping()) return;
  cause_ = std::move(cause);
  start_timer_.cancel();
  status_line_.end();
  unreached_timer_.cancel();
  note_timer_.cancel();
  exit_timer_.cancel();
  cause_timer_.cancel();
  parts_.input.stop();
  terminal_.end();
  exception_watch_.end();
  agents_->stop_starting(cause_->kind == EndKind::start_timeout);
  const auto grace = parts_.spec.stop.grace;
  if (!launched_ || grace.count() == 0) cause_->first_signal.reset();
  kill_signal_follows_ = cause_->first_signal.has_value();
  const int signal = kill_signal_follows_ ? *cause_->first_signal : kill_signal();
  agents_->send_all(FrameType::stop, pack(StopMessage{signal, grace}));
  if (kill_signal_follows_) first_signal_timer_.start(grace / 2);
  agent_timer_.start(grace + kAgentPatience);
  if (agents_->all_gone()) parts_.loop.stop();
}

void Attempt::shorten_stop(std::string_view key) {
  if (!kill_signal_follows_) return agents_->send_all(FrameType::kill);
  kill_signal_follows_ = false;
  first_signal_timer_.cancel();
  agents_->send_all(FrameType::stop, pack(StopMessage{kill_signal(), parts_.spec.stop.grace / 2}));
  const auto running = table_.running();
  const bool is_one = running.size() == 1;
  note(fmt::format("{} still run{}: stopping {}{}",
                   running.empty() ? "processes of ranks" : describe_ranks(running),
                   is_one ? "s" : "", is_one ? "it" : "them", describe_stop(key)));
}

std::string Attempt::describe_stop(std::string_view key) const {
  if (!launched_) return fmt::format("; {} once more kills at once", key);
  const auto grace = parts_.spec.stop.grace;
  const auto now = signal_name(kill_signal_follows_ ? *cause_->first_signal : kill_signal());
  const auto next = signal_name(kill_signal_follows_ ? kill_signal() : SIGKILL);
  return fmt::format(" with {}, after {} with {}; {} once more: {} now", now,
                     seconds_text(cause_->first_signal ? grace / 2 : grace), next, key, next);
}

}  // namespace hvdrun
