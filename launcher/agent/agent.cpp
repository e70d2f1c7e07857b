#include "agent/agent.hpp"

#include "agent/descriptor_limit.hpp"
#include "agent/guard_messages.hpp"
#include "agent/held_ports.hpp"
#include "agent/hello.hpp"
#include "agent/host_watch.hpp"
#include "agent/job_folders.hpp"
#include "agent/kept_folders.hpp"
#include "agent/launcher_watch.hpp"
#include "agent/meeting_watch.hpp"
#include "agent/member_server.hpp"
#include "agent/page_watch.hpp"
#include "agent/pmix_server.hpp"
#include "agent/process_tree.hpp"
#include "agent/rank_ends.hpp"
#include "agent/rank_inputs.hpp"
#include "agent/rank_looker.hpp"
#include "agent/rank_messages.hpp"
#include "agent/rank_processes.hpp"
#include "agent/rank_starter.hpp"
#include "agent/rank_stop.hpp"
#include "agent/rank_variables.hpp"
#include "agent/run_through_faults.hpp"
#include "agent/status_pages.hpp"
#include "agent/stdio_forwarder.hpp"
#include "agent/user_signals.hpp"
#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/passed_signals.hpp"
#include "base/severity.hpp"
#include "base/system.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "protocol/frame_table.hpp"
#include "protocol/heartbeat.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// Processes that outlive their rank get this long to end by themselves before the kill signal.
constexpr milliseconds kLinger{250};
// How long to wait for the end of output when no process of the job is left.
constexpr milliseconds kOutputTimeout{1000};
// What the end may take beside the grace period: rounds of SIGKILL, the last output.
constexpr milliseconds kEndTimeout{20000};

class Agent {
 public:
  Agent(const AgentOptions& options, LinkEnd link, Fd guard_alive);
  int run();

 private:
  // Start.
  void begin();
  void start_pmix();
  Result<void> hold(const HoldPortsMessage& wanted);
  Result<void> launch(LaunchMessage job);
  Result<void> prepare();
  Result<bool> restore_files();
  RankStarter starter();
  void start_more(StartMoreMessage more);

  // Frames of the launcher.
  struct Frames;
  void on_frame(const Frame& frame);
  void on_output_credit(std::uint32_t bytes) { output_.add_credit(bytes); }
  Result<void> on_input(const Frame& frame) { return inputs_.take(frame); }
  void on_stop(const StopMessage& message);
  void on_kill() { stop(SIGKILL, milliseconds(0)); }
  void on_release();
  void on_user_signal(std::uint32_t signal);
  void pause();
  void resume();
  void on_question(const QuestionMessage& question);
  Result<void> on_pmix(const Frame& frame);
  Result<void> on_members(const Frame& frame);
  void on_end_member(std::uint32_t member) { ranks_.kill(static_cast<int>(member)); }

  // While ranks run.
  void on_signal(int signal);
  void on_child();
  void end_member(const RankProcess& process);
  void report_exit(const RankProcesses::Exit& exit);
  bool ranks_joined() const;
  void fail_job(const Error& error);
  void on_fault(const std::string& what);
  void warn(const std::string& text) {
    link_.send(FrameType::note, kToLauncher, warning_text(text));
  }

  // End.
  void on_silence(const LauncherWatch::Silent& silence);
  void on_launcher_gone(const std::optional<Error>& error);
  void on_guard_gone();
  void stop(int signal, milliseconds grace);
  void begin_stop();
  void end_leftovers();
  void kill_all();
  void on_unkillable(const std::vector<ProcessInfo>& processes);
  void consider_leaving();
  bool is_needed_elsewhere() const;
  void leave();

  AgentOptions options_;
  const pid_t guard_ = ::getppid();
  EventLoop loop_;
  KeptFolders folders_;
  std::vector<HeldPort> ports_;
  Link link_;
  OutputForwarder output_;
  RankInputs inputs_;
  SignalWatch signals_;
  Fd guard_alive_;
  FdEvent guard_event_;
  RankProcesses ranks_;
  UserSignals user_signals_;
  OomWatch oom_;
  GpuRecorder gpus_;
  std::unique_ptr<PmixServer> pmix_;
  std::string pmix_failure_;  // why the server did not start, if PmixMode::automatic; or else ""
  std::optional<StatusPages> pages_;
  std::optional<PageWatch> page_watch_;
  RankLooker looker_;
  std::map<std::string, common::Address> addresses_;  // of names that the launcher has asked for
  MeetingWatch meeting_;
  std::unique_ptr<MemberServer> members_;  // null: the job ends when a rank is lost
  std::optional<LaunchMessage> job_;
  RankStop rank_stop_;
  Timer grace_timer_;
  KillLoop final_kill_;
  Timer linger_timer_;
  Timer output_timer_;
  LauncherWatch launcher_;
  bool stopping_ = false;
  int stop_signal_ = 0;  // the last one that was sent to stop the ranks; 0: none
  bool released_ = false;
  bool paused_ = false;
  bool left_ = false;
  bool folders_removed_ = false;
  std::vector<std::string> leftovers_;
  RankEnds rank_ends_;
};

Agent::Agent(const AgentOptions& options, LinkEnd link, Fd guard_alive)
    : options_(options),
      folders_(loop_, JobFolders::of(options.job_id, options.agent),
               [this](const std::string& text) { warn(text); }),
      link_(loop_, std::move(link),
            {[this](const Frame& frame) { on_frame(frame); },
             [this](const std::optional<Error>& error) { on_launcher_gone(error); }}),
      output_(loop_, link_, [this](int) { consider_leaving(); }),
      inputs_(loop_, link_),
      signals_(loop_, watched_signals(), [this](int signal) { on_signal(signal); }),
      guard_alive_(std::move(guard_alive)),
      guard_event_(loop_, guard_alive_.get(), FdEvent::readable, [this] { on_guard_gone(); }),
      ranks_(raise_descriptor_limit(kOwnDescriptors + kDescriptorsPerRank * options.local_ranks),
             output_.writes()),
      user_signals_(loop_, ranks_, options.ignores_signals && !options.launcher_is_here,
                    [this](int signal) {
                      link_.send(FrameType::signal, kToLauncher,
                                 pack_number(static_cast<std::uint32_t>(signal)));
                    }),
      looker_(loop_, link_),
      meeting_(loop_, ranks_,
               {[this] { return ranks_joined(); },
                [this] { link_.send(FrameType::apart, kToLauncher, pack(meeting_.apart())); },
                [this](const std::string& text) {
                  if (!stopping_) warn(text);
                }}),
      rank_stop_(loop_, ranks_),
      grace_timer_(loop_, [this] { kill_all(); }),
      final_kill_(loop_, {[this] { consider_leaving(); },
                          [this](const std::vector<ProcessInfo>& left) { on_unkillable(left); }}),
      linger_timer_(loop_, [this] { end_leftovers(); }),
      output_timer_(loop_, [this] { output_.close_all(); }),
      launcher_(loop_, {[this](const auto& silence) { on_silence(silence); },
                        [this] { return members_ && members_->one_waits(); }}),
      rank_ends_(loop_, link_, [this] { consider_leaving(); }) {
  guard_event_.enable();
}

int Agent::run() {
  run_through_faults(loop_, {[this] { begin(); }, [this](const auto& what) { on_fault(what); },
                             [this] { return left_; }});
  return folders_removed_ ? kExitOk : kExitLauncher;  // after an error code the guard cleans up
}

void Agent::begin() {
  if (auto watched = launcher_.start(link_, options_.host_timeout, options_.launcher_is_here);
      !watched)
    fail_job(with_context(local_host_name(), watched.error()));
  clean_up_orphans(options_.job_id);
  const auto created = folders_.create(options_.pmix != PmixMode::off);
  if (!created)
    fail_job(with_context(local_host_name(), created.error()));
  else if (!created->empty())
    warn(local_host_name() + ": " + *created);
  link_.send(FrameType::hello, kToLauncher, pack(make_hello(options_, ports_, addresses_)));
  start_pmix();
}

void Agent::start_pmix() {
  if (options_.pmix == PmixMode::off) return;
  // Without descriptors libpmix ends this process.
  if (auto enough = prepare_descriptors(std::max<std::size_t>(1, options_.local_ranks)); !enough)
    return fail_job(enough.error());
  auto server = PmixServer::start(
      loop_, folders_.paths().temporary, local_host_name(), options_.local_ranks,
      {[this](int rank, int code, std::string text) {
         link_.send(FrameType::aborted, kToLauncher,
                    pack(AbortedMessage{rank, code, std::move(text), agent_clock()}));
       },
       [this](FrameType type, std::uint32_t destination, std::string_view payload) {
         link_.send(type, destination, payload);
       },
       [this](const Error& error) { fail_job(error); },
       [this](int rank) { return ranks_.pid_of(rank); },
       [this](const std::string& text) { warn(local_host_name() + ": " + text); }});
  if (server) {
    pmix_ = std::move(*server);
  } else if (options_.pmix == PmixMode::on) {
    fail_job(server.error());
  } else {
    pmix_failure_ = server.error().message;
  }
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return on_child();
  if (!user_signals_.take(signal, signals_.sender()) && signal == question_signal())
    report_time_left(guard_, std::nullopt);
  // Others who signal this process by mistake do not signal the ranks.
  if (options_.ignores_signals || !is_stop_signal(signal)) return;
  fail_job({fmt::format("the agent on {} got {}", local_host_name(), signal_name(signal)),
            kExitLauncher});
}

// Reports an error to the launcher, which answers with `stop`. Until then nothing else changes.
void Agent::fail_job(const Error& error) {
  link_.send(FrameType::failed, kToLauncher, pack(FailedMessage{error.message, error.exit_code}));
}

// Ends the ranks here with their grace period, also if the fault was on the way to that.
void Agent::on_fault(const std::string& what) {
  fail_job(
      {fmt::format("the agent on {} has a fault: {}; please report it", local_host_name(), what),
       kExitLauncher});
  if (!job_) return leave();
  if (stop_signal_ == SIGKILL) return kill_all();
  stop_signal_ = 0;
  stop(job_->kill_signal, job_->grace);
}

struct Agent::Frames {
  using Rows = FrameRows<Agent>;
  static constexpr std::array table{
      Rows::message<std::uint32_t, &Agent::on_output_credit>(FrameType::output_credit),
      Rows::whole<&Agent::on_input>(FrameType::input),
      Rows::whole<&Agent::on_input>(FrameType::input_closed),
      Rows::whole<&Agent::on_input>(FrameType::window),
      Rows::message<HoldPortsMessage, &Agent::hold>(FrameType::hold_ports),
      Rows::message<LaunchMessage, &Agent::launch>(FrameType::launch),
      Rows::message<StartMoreMessage, &Agent::start_more>(FrameType::start_more),
      Rows::message<StopMessage, &Agent::on_stop>(FrameType::stop),
      Rows::word<&Agent::on_kill>(FrameType::kill),
      Rows::word<&Agent::on_release>(FrameType::release),
      Rows::message<std::uint32_t, &Agent::on_user_signal>(FrameType::signal),
      Rows::word<&Agent::pause>(FrameType::pause),
      Rows::word<&Agent::resume>(FrameType::resume),
      Rows::message<QuestionMessage, &Agent::on_question>(FrameType::question),
      Rows::whole<&Agent::on_pmix>(FrameType::fence_result),
      Rows::whole<&Agent::on_pmix>(FrameType::modex_request),
      Rows::whole<&Agent::on_pmix>(FrameType::modex_answer),
      Rows::whole<&Agent::on_pmix>(FrameType::names_answer),
      Rows::whole<&Agent::on_members>(FrameType::over),
      Rows::whole<&Agent::on_members>(FrameType::go),
      Rows::whole<&Agent::on_members>(FrameType::parts),
      Rows::whole<&Agent::on_members>(FrameType::updated),
      Rows::whole<&Agent::on_members>(FrameType::removed),
      Rows::message<std::uint32_t, &Agent::on_end_member>(FrameType::end_member),
  };
};

void Agent::on_frame(const Frame& frame) {
  launcher_.heard();
  if (frame.type == FrameType::alive) return;
  auto taken = dispatch(Frames::table, frame, *this);
  if (!taken)
    taken = fail(fmt::format("the agent on {} got a frame of type {} that it does not know",
                             local_host_name(), static_cast<int>(frame.type)));
  if (!*taken) fail_job(taken->error());
}

void Agent::on_release() {
  released_ = true;
  consider_leaving();
}

void Agent::on_user_signal(std::uint32_t signal) {
  signals_.poll();  // a scheduler may have sent it to us and the ranks, too
  user_signals_.pass_on(static_cast<int>(signal));
}

void Agent::resume() {
  paused_ = false;
  launcher_.set_paused(false);
  if (page_watch_ && !stopping_) page_watch_->start();
  ranks_.signal_all({SIGCONT});
  inputs_.ask_to_redraw();
}

Result<void> Agent::on_pmix(const Frame& frame) {
  return pmix_ ? pmix_->on_frame(frame) : Result<void>{};
}

Result<void> Agent::on_members(const Frame& frame) {
  if (frame.type == FrameType::go) folders_.restore();
  return members_ ? members_->on_frame(frame) : Result<void>{};
}

Result<void> Agent::hold(const HoldPortsMessage& wanted) {
  auto ports = hold_ports(wanted.count, wanted.master_port);
  if (!ports) return with_context(local_host_name(), ports.error());
  ports_ = std::move(*ports);
  link_.send(FrameType::ports, kToLauncher, pack(PortsMessage{numbers_of(ports_)}));
  return {};
}

Result<void> Agent::launch(LaunchMessage job) {
  if (!job.pmix_namespace.empty() && options_.pmix == PmixMode::on && !pmix_)
    return {};  // start_pmix() has reported why, and the launcher ends the job
  if (job.pmix_namespace.empty()) pmix_.reset();  // another host lacks libpmix
  if (!job.pmix_namespace.empty() && !pmix_failure_.empty()) {
    if (job.hosts.size() > 1)
      return fail(fmt::format("{}: {}; `--pmix off` runs the job without PMIx on all hosts",
                              local_host_name(), pmix_failure_));
    warn("continuing without PMIx: " + pmix_failure_);
  }
  add_host_variables(job, pmix_ != nullptr);
  job_ = std::move(job);
  if (stopping_) return {};
  HVD_CHECK(prepare_descriptors(job_->ranks.size()));
  HVD_CHECK(prepare());
  meeting_.begin(*job_, ports_, addresses_);
  auto result = starter().start(0);
  if (!paused_) page_watch_->start();
  meeting_.ranks_started();
  gpus_.start(job_->gpu_vendor, job_->gpus, ranks_.all());
  return result;
}

Result<void> Agent::prepare() {
  if (::chdir(job_->working_directory.c_str()) != 0)
    return fail_errno(fmt::format("cannot enter the working directory {} on {}",
                                  job_->working_directory, local_host_name()),
                      errno, kExitUsage);
  HVD_CHECK(write_mlx_hosts(folders_.paths(), *job_));
  const bool reports_stalls = job_->stall_time.count() > 0;
  HVD_TRY(StatusPages pages, StatusPages::create(folders_.paths().shared, job_->ranks.size(),
                                                 reports_stalls ? HVD_LAUNCHER_TELLS_STALLS : 0));
  pages_.emplace(std::move(pages));
  page_watch_.emplace(loop_, *pages_, ranks_, gpus_, link_, *job_);
  if (job_->elastic) {
    HVD_TRY(members_, MemberServer::start(loop_, link_, folders_.paths().shared, *job_,
                                          [this](const std::string& text) { warn(text); }));
  }
  folders_.watch([this] { return restore_files(); });
  if (!pmix_) return {};
  pmix_->add_defaults(job_->environment);
  return pmix_->register_job(PmixJob::of(*job_));
}

// Makes what ranks find in the shared folder again. Returns whether something was missing.
Result<bool> Agent::restore_files() {
  HVD_TRY(bool was_missing, pages_->restore());
  HVD_TRY(const bool hosts, restore_mlx_hosts(folders_.paths(), *job_));
  was_missing = was_missing || hosts;
  if (!members_) return was_missing;
  HVD_TRY(const bool socket, members_->restore());
  return was_missing || socket;
}

RankStarter Agent::starter() {
  return {*job_,   folders_.paths(), link_,          *pages_,    ranks_,
          inputs_, output_,          members_.get(), pmix_.get()};
}

void Agent::start_more(StartMoreMessage more) {
  if (!pages_ || stopping_) return;
  folders_.restore();
  const auto before = ranks_.all().size();
  starter().start_more(std::move(more));
  for (auto i = before; i < ranks_.all().size(); ++i) gpus_.add(ranks_.all()[i]);
  if (paused_) ranks_.signal_all({SIGSTOP});
}

void Agent::on_child() {
  const auto exits = ranks_.reap();
  if (pmix_) pmix_->drain();  // so that report_exit() knows how they left PMIx
  if (!exits.empty()) meeting_.rank_ended();
  for (const auto& exit : exits) {
    if (members_) end_member(ranks_.all()[exit.index]);
    report_exit(exit);
  }
  rank_stop_.look();
  consider_leaving();
}

// Ends what a lost member has started, but Python's resource tracker, which removes semaphores.
void Agent::end_member(const RankProcess& process) {
  members_->ended(static_cast<std::uint32_t>(process.rank));
  if (process.wait_status != 0) ::kill(-process.pid, SIGTERM);
}

void Agent::report_exit(const RankProcesses::Exit& exit) {
  const RankProcess& process = ranks_.all()[exit.index];
  auto message = exited_message(*pages_, process, exit, inputs_.taken(process.rank));
  message.after_kill = stop_signal_ == SIGKILL || process.killed;
  message.out_of_memory = oom_.may_explain(process.wait_status);
  rank_ends_.report(std::move(message), pmix_.get());
}

// Before the ranks start there is nothing to say.
void Agent::on_question(const QuestionMessage& question) {
  if (!pages_) return;
  if (question.wanted == Wanted::looks) return looker_.start(question, *pages_, ranks_);
  link_.send(FrameType::answer, kToLauncher,
             pack(answer_of(question, *pages_, ranks_.all(), &gpus_)));
}

bool Agent::ranks_joined() const {
  if (!pages_ || (pmix_ && pmix_->had_clients()) || meeting_.joined()) return true;
  const auto& all = ranks_.all();
  return std::any_of(all.begin(), all.end(), [this](const RankProcess& process) {
    return pages_->counters(process.index).joined;
  });
}

void Agent::pause() {
  paused_ = true;
  launcher_.set_paused(true);
  if (page_watch_) page_watch_->stop();
  ranks_.signal_all({SIGSTOP});
  link_.send(FrameType::paused, kToLauncher, {});
}

// Leaves the link open, so that a launcher that runs again later learns what has happened.
void Agent::on_silence(const LauncherWatch::Silent& silence) {
  fail_job({fmt::format("the agent on {} {}", local_host_name(), silence.text), kExitLauncher});
  if (!job_) return leave();
  stop(silence.waits ? SIGKILL : job_->kill_signal, job_->grace);
}

// Ends the job here. After an error only incoming frames are lost: the launcher may still get ours.
void Agent::on_launcher_gone(const std::optional<Error>& error) {
  if (error) fail_job(with_context(local_host_name(), *error));
  output_.discard();
  inputs_.close_all();
  report_time_left(guard_, (job_ ? job_->grace : milliseconds(0)) + kEndTimeout);
  if (!job_) return leave();
  stop(job_->kill_signal, job_->grace);
  consider_leaving();
}

void Agent::on_guard_gone() {
  guard_event_.disable();
  fail_job(
      {fmt::format("the guard of the agent on {} was killed", local_host_name()), kExitLauncher});
}

// Reports what the ranks do now, before the signal changes that.
void Agent::begin_stop() {
  if (stopping_) return;
  stopping_ = true;
  launcher_.stop();
  if (page_watch_) page_watch_->stop();
  if (ranks_.any_rank_alive()) on_question({0, Wanted::at_stop});
  ranks_.begin_stop();
}

// The ranks may have got the signal here before, with less time: when they had all ended, and their
// processes had not.
void Agent::on_stop(const StopMessage& message) {
  if (stop_signal_ != message.signal) return stop(message.signal, message.grace);
  grace_timer_.start(message.grace);
  rank_stop_.extend(message.grace);
}

// SIGKILL follows after the grace period. A later call with another signal sends that one too.
void Agent::stop(int signal, milliseconds grace) {
  begin_stop();
  if (signal == SIGKILL) return kill_all();
  if (stop_signal_ == signal || stop_signal_ == SIGKILL) return;
  stop_signal_ = signal;
  if (pages_) pages_->ask_to_stop();
  signals_.poll();  // a scheduler may have sent it to us and the ranks, too
  rank_stop_.begin(signal, grace, user_signals_.ranks_have_had(signal));
  grace_timer_.start(grace);
  consider_leaving();
}

// Ends processes that outlive the ranks which started them.
void Agent::end_leftovers() {
  std::vector<std::string> names;
  for (const auto& process : descendants_of(::getpid(), all_processes()))
    if (process.name != kLookProcess) names.push_back(to_string(process));
  if (!names.empty())
    warn(fmt::format("ranks on {} have left {} behind; ending {}", local_host_name(),
                     fmt::join(names, ", "), names.size() == 1 ? "it" : "them"));
  stop(job_->kill_signal, job_->grace);
}

void Agent::kill_all() {
  stop_signal_ = SIGKILL;
  rank_stop_.cancel();
  grace_timer_.cancel();
  linger_timer_.cancel();
  final_kill_.start();
}

void Agent::on_unkillable(const std::vector<ProcessInfo>& processes) {
  for (const auto& process : processes)
    leftovers_.push_back(to_string(process) + " on " + local_host_name());
  leave();
}

// Leaves if nothing is left. Call it whenever something has ended.
void Agent::consider_leaving() {
  if (left_ || !(job_ || stopping_) || ranks_.any_rank_alive() || !rank_ends_.all_reported())
    return;
  // Starting has failed, or more ranks may come.
  const bool waits = job_ && (job_->grows || ranks_.all().size() < job_->ranks.size());
  if (waits && !stopping_ && !released_) return;
  looker_.stop();
  if (!ranks_.none_left()) {
    if (!stopping_ && !linger_timer_.pending()) linger_timer_.start(kLinger);
    return;
  }
  if (!output_.empty()) {
    if (!output_timer_.pending()) output_timer_.start(kOutputTimeout);
    return;
  }
  if (is_needed_elsewhere()) return;
  leave();
}

// Returns whether ranks of other hosts may still ask our PMIx server for data that ours have put.
bool Agent::is_needed_elsewhere() const {
  return pmix_ && job_ && job_->hosts.size() > 1 && !stopping_ && !released_;
}

void Agent::leave() {
  if (left_) return;
  left_ = true;
  // The guard ends after us, and may have been stopped.
  if (::getppid() == guard_) ::kill(guard_, SIGCONT);
  meeting_.finish();
  const bool joined = ranks_joined() || meeting_.was_too_short();
  link_.send(FrameType::done, kToLauncher,
             pack(DoneMessage{leftovers_, gpus_.record(), joined, meeting_.apart()}));
  folders_removed_ = folders_.clean_up();
  link_.flush(std::chrono::seconds(5));
  link_.hang_up();
  loop_.stop();
}

}  // namespace

int run_agent(const AgentOptions& options, LinkEnd link, Fd guard_alive) {
  set_process_name(kAgentProcess);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);     // libpmix writes to clients that die
  block_only(watched_signals());  // the guard may have sent one already
  // Never destroyed: libpmix's thread may still call us while the process ends.
  auto* agent = new Agent(options, std::move(link), std::move(guard_alive));
  return agent->run();
}

}  // namespace hvdrun
