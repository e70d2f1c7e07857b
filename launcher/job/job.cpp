#include "job/job.hpp"

#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "base/event_loop.hpp"
#include "base/random.hpp"
#include "base/signal_watch.hpp"
#include "base/version.hpp"
#include "control/link.hpp"
#include "control/messages.hpp"
#include "job/blame.hpp"
#include "job/input_relay.hpp"
#include "job/launch.hpp"
#include "job/rank_book.hpp"
#include "job/report_text.hpp"
#include "job/state_table.hpp"
#include "output/output.hpp"
#include "remote/local_agent.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Output bytes that an agent may have under way before the launcher has shown them.
constexpr std::uint32_t kOutputWindow = 2u << 20;
// Credit goes back in pieces of at least this, so that there are few frames.
constexpr std::uint32_t kCreditStep = kOutputWindow / 8;
// After a rank has ended well and others run on, this long before it is said.
constexpr milliseconds kEarlyExitNote{5000};
constexpr std::chrono::seconds kLastResortPatience{5};
// An agent ends its ranks within the grace and its own rounds of SIGKILL. One that has not ended
// this much later hangs (in PMIx, in the kernel), and is killed.
constexpr milliseconds kAgentPatience{20000};

// Why the job is stopped before its end.
struct StopCause {
  std::string reason;
  std::optional<int> exit_code;  // none: that of the rank to blame
};

std::string seconds_text(milliseconds time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

class Job {
 public:
  Job(const JobSpec& spec, const Placement& placement, const JobContext& context);
  Result<Report> run();

 private:
  struct AgentState {
    std::size_t host_index = 0;
    pid_t guard = 0;
    pid_t pid = 0;  // of the agent itself, once it has greeted
    std::unique_ptr<Link> link;
    std::uint32_t credit_owed = 0;
    bool greeted = false;
    bool started = false;
    bool paused = false;
    bool done = false;
    bool gone = false;

    void send(FrameType type, std::string_view payload = {}) {
      link->send(type, static_cast<std::uint32_t>(host_index), payload);
    }
  };

  // Beginning.
  Result<void> begin();
  void launch();
  void start_input();
  AgentState& agent_of(int rank);

  // What agents say.
  void on_frame(AgentState& agent, const Frame& frame);
  Result<void> handle(AgentState& agent, const Frame& frame);
  Result<void> on_hello(AgentState& agent, const HelloMessage& hello);
  void on_started(AgentState& agent, const StartedMessage& started);
  Result<void> on_output(AgentState& agent, const Frame& frame);
  Result<void> on_exited(const ExitedMessage& message);
  void on_aborted(const AbortedMessage& message);
  void on_paused(AgentState& agent);
  void on_link_closed(AgentState& agent, const std::optional<Error>& error);
  void return_credit();

  // What the user says.
  void on_signal(int signal);
  void on_stop_signal(int signal);

  // What the clock says.
  void on_start_timeout();
  void on_early_exit();
  void on_exit_timeout();

  // Ending.
  void judge(const RankReport& rank);
  void stop(StopCause cause);
  void send_all(FrameType type, std::string_view payload = {});
  bool all_agents(bool AgentState::*flag) const;
  void consider_end();
  void kill_agents();
  void reap_guards();
  Report finish();

  void note(const std::string& text) { output_->note("hvdrun: " + text); }

  const JobSpec& spec_;
  const Placement& placement_;
  const JobContext& context_;
  JobIdentity identity_;
  EventLoop loop_;
  RankBook book_;
  std::unique_ptr<Output> output_;
  std::vector<std::unique_ptr<AgentState>> agents_;  // by host index
  std::optional<SignalWatch> signals_;
  std::optional<InputRelay> input_;
  Timer start_timer_;
  Timer note_timer_;
  Timer exit_timer_;
  Timer agent_timer_;
  Clock::time_point begun_ = Clock::now();
  Report report_;  // all but its ranks, which are in book_ until the end
  std::optional<StopCause> cause_;
  StateTable states_;
  int stop_signals_ = 0;
  bool output_abandoned_ = false;
};

Job::Job(const JobSpec& spec, const Placement& placement, const JobContext& context)
    : spec_(spec),
      placement_(placement),
      context_(context),
      book_(placement),
      start_timer_(loop_, [this] { on_start_timeout(); }),
      note_timer_(loop_, [this] { on_early_exit(); }),
      exit_timer_(loop_, [this] { on_exit_timeout(); }),
      agent_timer_(loop_, [this] { kill_agents(); }) {
  identity_.id = random_hex(16);
  identity_.key = random_hex(32);
  identity_.master_address = "127.0.0.1";
}

Result<void> Job::begin() {
  HVD_TRY(output_, Output::open(loop_.base(), spec_.output, placement_,
                                {[this] { return_credit(); },
                                 [this](const Error& error, bool stop_job) {
                                   report_.notes.push_back(error.message);
                                   // `hvdrun … | head` ends as any program does: quietly.
                                   if (error.exit_code != kExitSignalBase + SIGPIPE)
                                     note(error.message);
                                   if (stop_job) stop({error.message, error.exit_code});
                                 }}));
  AgentOptions options;
  options.job_id = identity_.id;
  options.pmix = spec_.pmix;
  options.local_ranks = placement_.hosts.front().ranks.size();
  options.rank_signal_mask = context_.rank_signal_mask;
  HVD_TRY(LocalAgent local, start_local_agent(options));
  auto agent = std::make_unique<AgentState>();
  auto* state = agent.get();
  agent->guard = local.guard;
  agents_.push_back(std::move(agent));
  state->link = std::make_unique<Link>(
      loop_, std::move(local.link),
      Link::Events{
          [this, state](const Frame& frame) { on_frame(*state, frame); },
          [this, state](const std::optional<Error>& error) { on_link_closed(*state, error); }});
  signals_.emplace(loop_, not_ignored(job_signals()), [this](int signal) { on_signal(signal); });
  start_timer_.start(spec_.start_timeout);
  return {};
}

Result<Report> Job::run() {
  HVD_CHECK(begin());
  loop_.run();
  return finish();
}

void Job::launch() {
  identity_ = with_master_of_user(std::move(identity_), spec_);
  for (const auto& agent : agents_) {
    agent->send(FrameType::output_credit, pack_number(kOutputWindow));
    agent->send(FrameType::launch, pack(launch_message(spec_, placement_, identity_,
                                                       context_.environment, agent->host_index)));
  }
}

void Job::send_all(FrameType type, std::string_view payload) {
  for (const auto& agent : agents_) agent->send(type, payload);
}

bool Job::all_agents(bool AgentState::*flag) const {
  return std::all_of(agents_.begin(), agents_.end(),
                     [flag](const auto& agent) { return agent.get()->*flag; });
}

void Job::on_frame(AgentState& agent, const Frame& frame) {
  if (auto handled = handle(agent, frame); !handled)
    stop({handled.error().message, handled.error().exit_code});
}

Result<void> Job::handle(AgentState& agent, const Frame& frame) {
  switch (frame.type) {
    case FrameType::output:
    case FrameType::output_closed:
      return on_output(agent, frame);
    case FrameType::hello: {
      HVD_TRY(const auto hello, parse<HelloMessage>(frame.payload));
      return on_hello(agent, hello);
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
      on_aborted(aborted);
      return {};
    }
    case FrameType::input_credit: {
      HVD_TRY(const auto credit, parse_input_credit(frame.payload));
      if (input_) input_->add_credit(static_cast<int>(credit.rank), credit.bytes);
      return {};
    }
    case FrameType::states: {
      HVD_TRY(const auto states, parse<StatesMessage>(frame.payload));
      for (const auto& line : states_.add(states, book_.ranks())) note(line);
      return {};
    }
    case FrameType::paused:
      on_paused(agent);
      return {};
    case FrameType::note:
      note(std::string(frame.payload));
      return {};
    case FrameType::failed: {
      HVD_TRY(const auto failed, parse<FailedMessage>(frame.payload));
      stop({failed.text, failed.exit_code});
      return {};
    }
    case FrameType::done: {
      HVD_TRY(const auto done, parse<DoneMessage>(frame.payload));
      agent.done = true;
      report_.leftovers.insert(report_.leftovers.end(), done.leftovers.begin(),
                               done.leftovers.end());
      return {};
    }
    default:
      return fail(fmt::format("an agent sent a frame of type {} that hvdrun does not know",
                              static_cast<int>(frame.type)));
  }
}

Result<void> Job::on_hello(AgentState& agent, const HelloMessage& hello) {
  if (hello.protocol != kProtocolVersion || hello.version != kVersion)
    return fail(fmt::format("hvdrun on {} is version {}, here it is {}: install the same on both",
                            hello.host, hello.version, kVersion),
                kExitUsage);
  agent.greeted = true;
  agent.pid = hello.pid;
  if (agent.host_index == 0) identity_.master_port = std::to_string(hello.master_port);
  if (all_agents(&AgentState::greeted) && !cause_) launch();
  return {};
}

void Job::on_started(AgentState& agent, const StartedMessage& started) {
  agent.started = true;
  for (const auto& [rank, pid] : started.pids) book_.started(rank, pid);
  if (!all_agents(&AgentState::started)) return;
  start_timer_.cancel();
  start_input();
}

Job::AgentState& Job::agent_of(int rank) {
  return *agents_[book_.host_index(rank)];
}

void Job::start_input() {
  const auto receivers = input_receivers(spec_.input, placement_.size);
  if (receivers.empty()) return;
  input_.emplace(
      loop_, receivers,
      InputRelay::Events{[this](int rank, std::string_view bytes) {
                           agent_of(rank).send(FrameType::input,
                                               pack_input(static_cast<std::uint32_t>(rank), bytes));
                         },
                         [this](int rank) {
                           agent_of(rank).send(FrameType::input_closed,
                                               pack_number(static_cast<std::uint32_t>(rank)));
                         }});
  input_->start();
}

Result<void> Job::on_output(AgentState& agent, const Frame& frame) {
  HVD_TRY(const auto message, parse_output(frame.payload));
  const auto rank = static_cast<int>(message.header.rank);
  if (!book_.has(rank))
    return fail(fmt::format("an agent sent output of rank {}, which does not exist", rank));
  const auto stream = message.header.stream == 2 ? Stream::err : Stream::out;
  if (frame.type == FrameType::output_closed) {
    output_->close(rank, stream);
    return {};
  }
  output_->write(rank, stream, message.bytes,
                 Output::Time(milliseconds(message.header.milliseconds)));
  agent.credit_owed += static_cast<std::uint32_t>(message.bytes.size());
  if (agent.credit_owed >= kCreditStep && !output_->congested()) return_credit();
  return {};
}

void Job::return_credit() {
  for (const auto& agent : agents_) {
    if (agent->credit_owed == 0) continue;
    agent->send(FrameType::output_credit, pack_number(std::exchange(agent->credit_owed, 0)));
  }
}

Result<void> Job::on_exited(const ExitedMessage& message) {
  HVD_TRY(const RankReport* rank, book_.exited(message));
  if (input_) input_->remove(message.rank);
  judge(*rank);
  return {};
}

// What the end of one rank means for the others.
void Job::judge(const RankReport& rank) {
  if (cause_) return;
  if (failed_by_itself(rank)) return stop({});
  if (book_.all_ended()) {
    note_timer_.cancel();
    exit_timer_.cancel();
  } else if (book_.ended() == 1) {
    note_timer_.start(kEarlyExitNote);
    if (spec_.stop.exit_timeout) exit_timer_.start(*spec_.stop.exit_timeout);
  }
}

void Job::on_start_timeout() {
  stop({fmt::format("not all ranks had started after {} (--start-timeout)",
                    seconds_text(spec_.start_timeout)),
        kExitTimeout});
}

void Job::on_early_exit() {
  note(fmt::format("ranks {} run on after others have ended well", fold_ranks(book_.running())));
}

void Job::on_exit_timeout() {
  stop({fmt::format("ranks {} still ran {} after the first had ended (--exit-timeout)",
                    fold_ranks(book_.running()), seconds_text(*spec_.stop.exit_timeout)),
        kExitTimeout});
}

void Job::on_aborted(const AbortedMessage& message) {
  book_.aborted(message);
  stop({});
}

void Job::on_paused(AgentState& agent) {
  agent.paused = true;
  if (!all_agents(&AgentState::paused)) return;
  for (const auto& each : agents_) each->paused = false;
  ::kill(::getpid(), SIGSTOP);  // the shell sees us stopped; SIGCONT goes on below, in on_signal
}

void Job::on_link_closed(AgentState& agent, const std::optional<Error>& error) {
  agent.gone = true;
  if (!agent.done)
    stop({fmt::format("the agent on {} was lost{}", placement_.hosts[agent.host_index].host,
                      error ? ": " + error->message : ""),
          kExitLauncher});
  consider_end();
}

void Job::consider_end() {
  if (all_agents(&AgentState::gone)) loop_.stop();
}

void Job::on_signal(int signal) {
  switch (signal) {
    case SIGUSR1:
    case SIGUSR2:
      return send_all(FrameType::signal, pack_number(static_cast<std::uint32_t>(signal)));
    case SIGQUIT:
      states_.expect(agents_.size());
      return send_all(FrameType::query_states);
    case SIGTSTP:
      return send_all(FrameType::pause);
    case SIGCONT:
      send_all(FrameType::resume);
      if (input_) input_->on_foreground();
      return;
    default:
      return on_stop_signal(signal);
  }
}

void Job::on_stop_signal(int signal) {
  ++stop_signals_;
  if (stop_signals_ == 1 && !cause_) {
    note(fmt::format("{}: stopping {} rank{}; {} once more kills at once",
                     signal == SIGINT ? "interrupted" : signal_name(signal), placement_.size,
                     placement_.size == 1 ? "" : "s", signal == SIGINT ? "Ctrl-C" : "the signal"));
    return stop({signal == SIGINT ? "interrupted" : "got " + signal_name(signal),
                 kExitSignalBase + signal});
  }
  // Whoever asks twice does not want to wait for a terminal that takes nothing either.
  output_abandoned_ = true;
  send_all(FrameType::kill);
}

void Job::stop(StopCause cause) {
  if (cause_) return;
  cause_ = std::move(cause);
  start_timer_.cancel();
  note_timer_.cancel();
  exit_timer_.cancel();
  send_all(FrameType::stop, pack(StopMessage{spec_.stop.signal, spec_.stop.grace}));
  agent_timer_.start(spec_.stop.grace + kAgentPatience);
}

// Their guards end what they leave.
void Job::kill_agents() {
  for (const auto& agent : agents_) {
    if (agent->gone) continue;
    note(fmt::format("the agent on {} does not answer and is killed",
                     placement_.hosts[agent->host_index].host));
    ::kill(agent->pid != 0 ? agent->pid : agent->guard, SIGKILL);
  }
}

// Guards end after their agents, and last of all. Should one have been killed together with its
// agent, nobody has swept that host: on this one we do, being a subreaper.
void Job::reap_guards() {
  bool swept = true;
  for (const auto& agent : agents_) {
    int status = 0;
    while (::waitpid(agent->guard, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) swept = false;
  }
  if (swept) return;
  for (const auto& left :
       kill_job_processes(::getpid(), identity_.id, kLastResortPatience, context_.foreign_children))
    report_.leftovers.push_back(to_string(left));
  JobFolders::of(identity_.id).sweep();
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

Report Job::finish() {
  reap_guards();
  report_.wall_seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  for (auto& rank : book_.ranks()) {
    rank.last_stderr = output_->last_stderr(rank.placement.rank);
    if (!rank.exited) rank.stopped_by_us = true;
  }
  const auto culprit = book_.culprit();
  if (cause_ && cause_->exit_code) {
    report_.exit_code = *cause_->exit_code;
    report_.reason = cause_->reason;
  } else if (culprit && cause_) {
    report_.culprit = static_cast<int>(*culprit);
    report_.exit_code = exit_code_of(book_.ranks()[*culprit]);
  } else if (cause_) {
    report_.exit_code = kExitLauncher;  // nobody to blame, but not all went well
  }
  report_.ranks = std::move(book_.ranks());
  for (auto& loss : output_->losses()) report_.notes.push_back(std::move(loss));
  for (const auto& line : report_lines(report_)) note(line);
  while (!output_->idle() && !output_abandoned_) loop_.run_once();
  return std::move(report_);
}

}  // namespace

const std::vector<int>& job_signals() {
  static const std::vector<int> signals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                        SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
  return signals;
}

Result<Report> run_job(const JobSpec& spec, const Placement& placement, const JobContext& context) {
  Job job(spec, placement, context);
  return job.run();
}

}  // namespace hvdrun
