#include "job/attempt.hpp"

#include "base/passed_signals.hpp"
#include "base/severity.hpp"
#include "base/version.hpp"
#include "common/text.hpp"
#include "job/launch.hpp"
#include "protocol/frame_table.hpp"
#include "schedulers/schedulers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {

namespace {

using std::chrono::milliseconds;

// A scheduler's signal for a whole job reaches the processes of all hosts within this time.
constexpr milliseconds kWholeJob{1000};

Stream stream_of(const OutputHeader& header) {
  return header.stream == 2 ? Stream::err : Stream::out;
}

Error no_such_rank(int rank) {
  return {fmt::format("an agent sent output of rank {}, which does not exist", rank),
          kExitLauncher};
}

}  // namespace

Attempt::Attempt(const JobParts& job, const JobIdentity& identity)
    : attempt_{job,
               job.loop.now(),
               identity,
               RankTable(Placement{}, job.loop.now()),
               job.make_agents(
                   {[this](AgentState& agent, const Frame& frame) { on_frame(agent, frame); },
                    [this](AgentState& agent, const std::string& text) {
                      if (agent.life.has(AgentPhase::greeted))
                        attempt_.note(agent.host.name + ": " + text);
                    },
                    [this](AgentState& agent) { on_agent_gone(agent); }}),
               std::make_unique<Questions>(*attempt_.agents),
               StatusLine(job.loop, *attempt_.agents, attempt_.table, job.output),
               TerminalSession(
                   job.spec.output.terminal_rank, job.terminal, job.output,
                   [this](const WindowMessage& window) {
                     const auto host = attempt_.table.host_index(static_cast<int>(window.rank));
                     attempt_.agents->on_host(host).send(FrameType::window, pack_window(window));
                   }),
               std::nullopt,
               TimeoutTimer(job.loop, [this] { phase_->on_start_timeout(); }),
               [this](StopCause cause) { stop(std::move(cause)); },
               [this] { run_ranks(); }},
      starting_(attempt_),
      hang_(attempt_,
            [this](std::vector<RankState> states) {
              const auto* const membership = running_ ? running_->membership() : nullptr;
              return membership != nullptr ? membership->members_among(std::move(states)) : states;
            }),
      quiet_watch_(attempt_),
      signal_timer_(job.loop, [this] { pass_on_waiting(); }),
      table_(job.loop),
      exception_watch_(
          job.loop, attempt_.table,
          [this](int rank) { return attempt_.job.output.last_stderr(rank); },
          [this](const std::string& text) { attempt_.note(warning_text(text)); }) {
  attempt_.hang = &hang_;
}

Result<AttemptEnd> Attempt::run() {
  HVD_CHECK(starting_.begin());
  if (!attempt_.agents->all_gone()) attempt_.job.loop.run();
  return finish();
}

// --- phases --------------------------------------------------------------------------------------

void Attempt::run_ranks() {
  phase_->leave();
  phase_ = &running_.emplace(attempt_);
  if (auto begun = running_->begin(); !begun) stop(agent_failure(begun.error()));
}

bool Attempt::stop(StopCause cause) {
  if (stopping_) return false;
  const auto grace = grace_for(cause);
  phase_->leave();
  phase_ = &stopping_.emplace(attempt_, std::move(cause), running_.has_value(), grace);
  exception_watch_.end();
  quiet_watch_.end();
  hang_.before_stop(stopping_->cause(), [this] { stopping_->begin(); });
  return true;
}

// After a scheduler's SIGTERM, which comes to hvdrun and to the ranks, it says how long they have.
milliseconds Attempt::grace_for(const StopCause& cause) const {
  const auto& stop = attempt_.job.spec.stop;
  if (!running_ || stop.grace) return stop.grace_period();
  const auto& ranks = attempt_.table.ranks();
  const auto ended = [](const RankReport& rank) { return rank.signal == SIGTERM; };
  const bool is_for_sigterm = cause.kind == EndKind::interrupted
                                  ? cause.exit_code == kExitSignalBase + SIGTERM
                                  : std::ranges::any_of(ranks, ended);
  if (!is_for_sigterm) return stop.grace_period();
  const auto& environment = attempt_.job.context.environment;
  const auto* scheduler = scheduler_of(environment);
  if (scheduler == nullptr) return stop.grace_period();
  return scheduler->time_after_sigterm(environment).value_or(stop.grace_period());
}

std::string_view Attempt::phase_name() const {
  if (stopping_) return "stopping";
  return running_ && attempt_.agents->all(AgentPhase::running) ? "running" : "starting";
}

bool Attempt::is_outside(int rank) const {
  const auto* const membership = running_ ? running_->membership() : nullptr;
  return membership != nullptr && attempt_.table.has(rank) && !membership->has_joined(rank);
}

std::string_view Attempt::role_of(int rank) const {
  if (is_outside(rank)) return "spare";
  const auto* const membership = running_ ? running_->membership() : nullptr;
  const bool may_be_lost = membership != nullptr && attempt_.table.has(rank);
  return may_be_lost && membership->is_lost(rank) ? "lost" : "member";
}

std::vector<RankState> Attempt::members_among(std::vector<RankState> ranks) const {
  const auto* const membership = running_ ? running_->membership() : nullptr;
  return membership != nullptr ? membership->members_among(std::move(ranks)) : ranks;
}

// --- what agents say -----------------------------------------------------------------------------

struct Attempt::Frames {
  using Rows = FrameRows<Attempt, AgentState>;
  static constexpr std::array table{
      Rows::whole<&Attempt::on_output>(FrameType::output),
      Rows::whole<&Attempt::on_output_closed>(FrameType::output_closed),
      Rows::message<HelloMessage, &Attempt::on_hello>(FrameType::hello),
      Rows::message<PortsMessage, &Attempt::on_ports>(FrameType::ports),
      Rows::message<StartedMessage, &Attempt::on_started>(FrameType::started),
      Rows::message<InputCredit, &Attempt::on_input_credit>(FrameType::input_credit),
      Rows::message<ExitedMessage, &Attempt::on_exited>(FrameType::exited),
      Rows::message<AbortedMessage, &Attempt::on_aborted>(FrameType::aborted),
      Rows::message<AnswerMessage, &Attempt::on_answer>(FrameType::answer),
      Rows::message<StallsMessage, &Attempt::on_stalls>(FrameType::stalls),
      Rows::message<ProgressMessage, &Attempt::on_progress>(FrameType::progress),
      Rows::message<std::string, &Attempt::on_note>(FrameType::note),
      Rows::message<ApartMessage, &Attempt::on_apart>(FrameType::apart),
      Rows::word<&Attempt::on_suspend>(FrameType::suspend),
      Rows::word<&Attempt::on_paused>(FrameType::paused),
      Rows::message<std::uint32_t, &Attempt::on_step_signal>(FrameType::signal),
      Rows::message<FailedMessage, &Attempt::on_failed>(FrameType::failed),
      Rows::message<DoneMessage, &Attempt::on_done>(FrameType::done),
      Rows::whole<&Attempt::on_pmix>(FrameType::fence),
      Rows::whole<&Attempt::on_pmix>(FrameType::fence_expired),
      Rows::whole<&Attempt::on_pmix>(FrameType::modex_request),
      Rows::whole<&Attempt::on_pmix>(FrameType::modex_answer),
      Rows::whole<&Attempt::on_pmix>(FrameType::names),
      Rows::whole<&Attempt::on_member>(FrameType::come),
      Rows::whole<&Attempt::on_member>(FrameType::part),
      Rows::whole<&Attempt::on_member>(FrameType::plan),
      Rows::whole<&Attempt::on_member>(FrameType::leave),
      Rows::whole<&Attempt::on_member>(FrameType::disconnected),
  };
};

void Attempt::on_frame(AgentState& agent, const Frame& frame) {
  auto taken = dispatch(Frames::table, frame, *this, agent);
  if (!taken)
    taken = fail(fmt::format("an agent sent a frame of type {} that hvdrun does not know",
                             static_cast<int>(frame.type)));
  if (!*taken) stop(agent_failure(taken->error()));
}

Result<void> Attempt::on_hello(AgentState& agent, const HelloMessage& hello) {
  if (hello.protocol != kProtocolVersion || hello.version != kVersion) {
    attempt_.agents->give_up(agent,
                             fmt::format("hvdrun there is version {}, here it is {}; install the "
                                         "same on both",
                                         hello.version, kVersion));
    return {};
  }
  attempt_.agents->greeted(agent, hello);
  return phase_->on_greeted(agent);
}

Result<void> Attempt::on_ports(AgentState& agent, PortsMessage ports) {
  return phase_->on_ports(agent, std::move(ports));
}

Result<void> Attempt::on_pmix(AgentState& agent, const Frame& frame) {
  if (!attempt_.router) return fail("an agent sent a frame of PMIx before the launch");
  return attempt_.router->take(agent.host_index, frame);
}

Result<void> Attempt::on_member(AgentState& agent, const Frame& frame) {
  return phase_->on_member(agent, frame);
}

void Attempt::on_started(AgentState& agent, const StartedMessage& started) {
  attempt_.agents->started(agent);
  for (const auto& [rank, pid] : started.pids) attempt_.table.started(rank, pid);
  phase_->on_started(agent);
  if (attempt_.agents->all(AgentPhase::running) && !stopping_) quiet_watch_.begin();
}

Result<void> Attempt::on_output(AgentState& agent, const Frame& frame) {
  HVD_TRY(const auto message, parse_output(frame.payload));
  const auto rank = static_cast<int>(message.header.rank);
  if (!attempt_.table.has(rank)) return no_such_rank(rank);
  const auto stream = stream_of(message.header);
  auto& output = attempt_.job.output;
  output.write(rank, stream, message.bytes, OutputTime(milliseconds(message.header.milliseconds)));
  exception_watch_.on_output(rank, stream);
  hang_.on_output();
  quiet_watch_.on_output();
  attempt_.agents->took_output(agent, message.bytes.size(), !output.congested());
  return {};
}

Result<void> Attempt::on_output_closed(AgentState&, const Frame& frame) {
  HVD_TRY(const auto message, parse_output(frame.payload));
  const auto rank = static_cast<int>(message.header.rank);
  if (!attempt_.table.has(rank)) return no_such_rank(rank);
  attempt_.job.output.close(rank, stream_of(message.header));
  if (attempt_.terminal.is_of(rank)) attempt_.terminal.end();
  return {};
}

void Attempt::on_input_credit(AgentState&, const InputCredit& credit) {
  attempt_.job.input.add_credit(static_cast<int>(credit.rank), credit.bytes);
}

Result<void> Attempt::on_exited(AgentState&, const ExitedMessage& message) {
  // A copy, because the table may get new ranks meanwhile.
  HVD_TRY(const RankReport rank, attempt_.table.exited(message, attempt_.job.loop.now()));
  attempt_.job.input.remove(message.rank, message.input_taken);
  if (attempt_.terminal.was_interrupted(rank))
    stop({EndKind::interrupted, "interrupted", kExitSignalBase + SIGINT});
  phase_->on_exited(rank);
  return {};
}

void Attempt::on_aborted(AgentState&, const AbortedMessage& message) {
  attempt_.table.aborted(message);
  if (!is_outside(message.rank)) stop({});  // otherwise it ends only itself
}

void Attempt::on_answer(AgentState& agent, AnswerMessage message) {
  if (message.number != 0) return attempt_.questions->take(agent.host_index, std::move(message));
  for (const auto& state : message.ranks)
    if (attempt_.table.has(state.rank)) states_at_stop_.push_back(state);
}

void Attempt::on_stalls(AgentState&, const StallsMessage& message) {
  phase_->on_stalls(message);
}

void Attempt::on_progress(AgentState& agent, const ProgressMessage& message) {
  phase_->on_progress(agent.host_index, message);
}

void Attempt::on_note(AgentState&, const std::string& text) {
  attempt_.note(text);
}

void Attempt::on_apart(AgentState&, const ApartMessage& message) {
  const auto hosts = attempt_.placement().hosts.size();
  if (auto line = separate_runs_.on_apart(message, hosts, attempt_.table.ranks().size()))
    attempt_.note(*line);
}

// As if the terminal were not raw.
void Attempt::on_suspend(AgentState&) {
  ::kill(::getpid(), SIGTSTP);
}

void Attempt::on_paused(AgentState& agent) {
  paused_.insert(agent.host_index);
  consider_pausing();
}

void Attempt::on_step_signal(AgentState& agent, std::uint32_t signal) {
  const int number = static_cast<int>(signal);
  if (stopping_ || !attempt_.agents->is_new_in_step(agent, number)) return;
  if (!is_stop_signal(number)) return attempt_.agents->pass_on_here(number);
  // The scheduler sends it to this process, too, if the whole job is to end.
  waiting_signals_.push_back(number);
  if (!signal_timer_.pending()) signal_timer_.start(kWholeJob);
}

void Attempt::pass_on_waiting() {
  const auto* scheduler = scheduler_of(attempt_.job.context.environment);
  for (const int signal : std::exchange(waiting_signals_, {})) {
    if (stopping_) return;
    attempt_.note(fmt::format(
        "{} has sent {} to the job's steps: the ranks get it, and hvdrun does not "
        "stop them for it",
        scheduler == nullptr ? "the scheduler" : scheduler->name(), signal_name(signal)));
    attempt_.agents->pass_on_here(signal);
  }
}

void Attempt::on_failed(AgentState& agent, const FailedMessage& failed) {
  const bool names_host =
      attempt_.agents->size() == 1 || failed.text.find(agent.host.name) != std::string::npos;
  const Error error{names_host ? failed.text : agent.host.name + ": " + failed.text,
                    failed.exit_code};
  if (!phase_->continues_without(agent, error)) stop(agent_failure(error));
}

void Attempt::on_done(AgentState& agent, const DoneMessage& done) {
  attempt_.agents->done(agent);
  std::copy(done.leftovers.begin(), done.leftovers.end(), std::back_inserter(leftovers_));
  if (!done.gpus.gpus.empty())
    gpus_.push_back({agent.host.name, with_device_names(done.gpus.gpus, agent.host)});
  attempt_.table.used_gpu_memory(done.gpus);
  separate_runs_.on_done(done, agent.dismissed);
}

void Attempt::on_agent_gone(AgentState& agent) {
  if (attempt_.router && !agent.dismissed) attempt_.router->host_lost(agent.host_index);
  // An agent that left in order, but before the end of its ranks, was lost too: without it the
  // others would wait for its ranks.
  const bool left_early = agent.life.done() && !phase_->may_end(agent);
  if ((!agent.life.done() || left_early) && !agent.dismissed) {
    auto why = agent.life.loss().why;
    if (left_early && why.empty()) why = "it ended before its ranks";
    phase_->on_lost(agent, std::move(why));
  }
  if (!agent.dismissed) attempt_.questions->lose(agent.host_index);
  consider_pausing();
  if (attempt_.agents->all_gone()) attempt_.job.loop.stop();
}

// --- what the user says --------------------------------------------------------------------------

void Attempt::on_signal(int signal) {
  auto& agents = *attempt_.agents;
  switch (signal) {
    case SIGQUIT:
      table_.ask(*attempt_.questions, {.wanted = Wanted::states}, kAnswerTime,
                 [this](const Answers& answers) {
                   if (answers.asked.empty())
                     return attempt_.note(fmt::format("no ranks run: the job is {}", phase_name()));
                   for (const auto& line : state_table(answers, attempt_.table))
                     attempt_.note(line);
                 });
      return hang_.on_question();
    case SIGTSTP:
      pausing_ = ranks_are_paused_ = true;
      quiet_watch_.end();
      paused_.clear();
      agents.send_all(FrameType::pause);
      return consider_pausing();
    case SIGCONT:
      pausing_ = false;
      attempt_.status_line.show();
      attempt_.terminal.resume();
      phase_->on_resumed();
      if (!stopping_) quiet_watch_.begin();
      // timeout(1) sends SIGCONT, too. A rank that its user has stopped stays so.
      if (std::exchange(ranks_are_paused_, false)) agents.send_all(FrameType::resume);
      return;
    case SIGWINCH:
      return attempt_.terminal.resize();
    default:
      return send_user_signal(signal);
  }
}

void Attempt::send_user_signal(int signal) {
  if (!attempt_.agents->all(AgentPhase::running))
    attempt_.note(
        warning_text(signal_name(signal) + " came before all ranks had started; those miss it"));
  attempt_.agents->send_signal(signal);
}

// The shell sees us stopped once all ranks are; SIGCONT goes on in on_signal().
void Attempt::consider_pausing() {
  // One that cannot be reached yet has no ranks, and learns of the pause when it can.
  const auto is_paused = [this](const AgentState& agent) {
    return agent.life.gone() || agent.dismissed || !agent.life.has(AgentPhase::reached) ||
           paused_.contains(agent.host_index);
  };
  if (!pausing_ || !std::ranges::all_of(attempt_.agents->every(), is_paused)) return;
  pausing_ = false;
  attempt_.job.output.status({});
  attempt_.job.output.flush(milliseconds(0));
  attempt_.terminal.pause();
  ::kill(::getpid(), SIGSTOP);
}

}  // namespace hvdrun
