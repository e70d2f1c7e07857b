#include "job/job.hpp"

#include "base/event_loop.hpp"
#include "base/host_list.hpp"
#include "base/passed_signals.hpp"
#include "base/severity.hpp"
#include "base/system.hpp"
#include "common/text.hpp"
#include "job/attempt.hpp"
#include "job/host_agents.hpp"
#include "job/job_view.hpp"
#include "job/restart.hpp"
#include "job/stdin_forwarder.hpp"
#include "job/unreached_hosts.hpp"
#include "output/output.hpp"
#include "output/user_terminal.hpp"
#include "report/advice.hpp"
#include "report/report_text.hpp"
#include "resources/place.hpp"
#include "schedulers/schedulers.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// What is still to be shown when the user no longer waits for it: what the descriptors take now.
constexpr std::chrono::milliseconds kLastWords{100};
// A reader of the output that takes nothing for this long has stopped.
constexpr std::chrono::milliseconds kReaderPatience{5000};
// The same signal within this time is no second request, but for Ctrl-C.
constexpr std::chrono::milliseconds kSameRequest{50};
// The same, if one of the two is a scheduler's: a batch script passes it on when it gets to it.
constexpr std::chrono::milliseconds kSameAsScheduler{2000};

// What outlives an attempt: signals, output, input, and the reason why there is no further one.
class Job {
 public:
  Job(const JobSpec& spec, Plan plan, const JobContext& context, const Simulation* simulation);
  Result<Report> run();

 private:
  Result<AttemptEnd> run_attempt();
  Result<AttemptEnd> restart(const AttemptEnd& failed);
  Result<void> move_away_from(const LostHosts& lost);
  void note_abandoned(const AttemptEnd& end);
  Report finish(Report report);
  void show_the_rest();
  bool repeat_last_lines(std::vector<std::string> lines);

  void on_output_error(const Error& error, bool stop_job);
  void on_signal(int signal);
  void on_stop_signal(int signal);
  void on_other_signal(int signal);
  // Returns whether this is the cause for which the attempt is stopped.
  bool end(StopCause cause);

  int restarts() const { return identity_.restart_count; }
  void note(const std::string& text) { output_->note(text); }

  const JobSpec& spec_;
  const JobContext& context_;
  Plan plan_;
  UsableHosts hosts_;
  JobIdentity identity_;
  EventLoop loop_;
  MakeAgents make_agents_;
  Output::Descriptors descriptors_;
  std::unique_ptr<Output> output_;
  StdinForwarder input_;
  std::unique_ptr<UserTerminal> terminal_;  // null: there is none to take care of
  std::optional<SignalWatch> signals_;
  std::unique_ptr<Attempt> attempt_;  // none between two
  std::optional<JobView> view_;       // none of a simulation
  EventLoop::Clock::time_point begun_ = loop_.now();
  std::vector<AttemptReport> attempts_;
  std::vector<std::string> notes_;
  // Lines about hosts where ranks may still run, and until when they apply.
  std::vector<std::pair<std::string, EventLoop::Clock::time_point>> abandoned_;
  std::optional<StopCause> end_;  // whatever happens, no further attempt
  struct StopSignal {
    int number = 0;
    bool by_scheduler = false;
    EventLoop::Clock::time_point time;
  };
  StopSignal last_stop_signal_;
  const bool is_real_;  // no simulation
  bool over_ = false;   // only output is still to be shown
  bool output_abandoned_ = false;
};

Job::Job(const JobSpec& spec, Plan plan, const JobContext& context, const Simulation* simulation)
    : spec_(spec),
      context_(context),
      plan_(std::move(plan)),
      hosts_(plan_.allocation),
      loop_(simulation != nullptr ? simulation->time : nullptr),
      input_(loop_, spec.max_restarts > 0),
      is_real_(simulation == nullptr) {
  identity_.id = random_hex(16);
  if (simulation != nullptr) {
    make_agents_ = simulation->make_agents;
    descriptors_ = simulation->descriptors;
  } else {
    make_agents_ = [this](Agents::Events events) {
      return std::make_unique<HostAgents>(loop_, spec_.remote, context_.environment,
                                          context_.executable, std::move(events));
    };
  }
}

Result<Report> Job::run() {
  Output::Events events{[this] {
                          if (attempt_) attempt_->on_output_relief();
                        },
                        [this](const Error& error, bool stop) { on_output_error(error, stop); },
                        [this](std::string_view bytes) {
                          if (terminal_) terminal_->set_undo(bytes);
                        }};
  HVD_TRY(output_, Output::open(loop_.base(), spec_.output, std::move(events), descriptors_));
  if (is_real_ &&
      (output_->progress_style() == Output::ProgressStyle::line || spec_.output.terminal_rank)) {
    HVD_TRY(terminal_, UserTerminal::open());
  }
  signals_.emplace(loop_, not_ignored(job_signals()), [this](int signal) { on_signal(signal); });
  if (is_real_)
    view_.emplace(
        JobView::Job{spec_, context_, plan_, loop_, identity_, *output_, attempt_, over_});
  HVD_TRY(AttemptEnd last, run_attempt());
  note_abandoned(last);
  while (is_worth_a_restart(last.kind) && restarts() < spec_.max_restarts) {
    auto next = restart(last);
    if (!next) {
      last.report.not_restarted = next.error().message;
      if (end_) last.report.exit_code = *end_->exit_code;
      break;
    }
    last = std::move(*next);
    note_abandoned(last);
  }
  return finish(std::move(last.report));
}

Result<AttemptEnd> Job::run_attempt() {
  identity_.key = random_hex(32);
  identity_.folder_id = restarts() == 0 ? identity_.id : random_hex(16);
  identity_.pmix_namespace = "hvd-" + random_hex(16);
  attempt_ = std::make_unique<Attempt>(
      JobParts{spec_, context_, loop_, *output_, input_, terminal_.get(), plan_, make_agents_,
               [this](const std::string& text) { notes_.push_back(text); }},
      identity_);
  auto result = attempt_->run();
  attempt_.reset();
  if (result) attempts_.push_back(in_short(result->report));
  return result;
}

// Error: there is no further attempt, and why.
Result<AttemptEnd> Job::restart(const AttemptEnd& failed) {
  // What has come meanwhile decides: the user's signals, a reader of the output who has gone.
  signals_->poll();
  output_->flush(std::chrono::milliseconds(0));
  if (end_) return fail(end_->reason);
  if (const auto& left = failed.report.leftovers; !left.empty())
    return fail(fmt::format("{} could not be ended", left.front()));
  HVD_CHECK(move_away_from(failed.lost_hosts));
  ++identity_.restart_count;
  note(warning_text(fmt::format("{}; restart {} of {}", attempts_.back().reason, restarts(),
                                spec_.max_restarts)));
  for (const auto& line : attempts_.back().failures) note(line);
  if (input_.has_lost_its_beginning())
    note(warning_text(fmt::format(
        "the restarted ranks get only the rest of the input: more than {} MiB came through a pipe; "
        "from a file (< FILE) they get all of it again",
        StdinForwarder::kMostKept >> 20)));
  return run_attempt();
}

Result<void> Job::move_away_from(const LostHosts& lost) {
  hosts_.attempt_ended(plan_.allocation, lost);
  if (lost.silent.empty() && lost.others.empty()) return {};
  plan_.allocation = hosts_.allocation();
  auto placed = place_ranks(spec_, plan_);
  if (!placed)
    if (const auto names = hosts_.take_back(); !names.empty()) {
      note(fmt::format("the ranks do not fit on the other hosts: trying {} once more",
                       fold_hosts(names)));
      plan_.allocation = hosts_.allocation();
      placed = place_ranks(spec_, plan_);
    }
  if (!placed)
    return with_context(
        fmt::format("{} {} not fit on what is left", plural(plan_.placement.size, "rank"),
                    plan_.placement.size == 1 ? "does" : "do"),
        std::move(placed).error());
  if (is_final(plan_.placement))
    for (const auto& line : plan_.placement.notes) note(line);
  return {};
}

// The user learns of it at the end, when GPUs and files may be wanted again.
void Job::note_abandoned(const AttemptEnd& end) {
  if (end.abandoned.empty()) return;
  abandoned_.emplace_back(end.abandoned, loop_.now() + time_of_abandoned_ranks(spec_));
}

void Job::on_output_error(const Error& error, bool stop_job) {
  notes_.push_back(error.message);
  // `hvdrun … | head` ends as any program does: quietly.
  if (error.exit_code != kExitSignalBase + SIGPIPE) note(error_text(error.message));
  if (stop_job) end({EndKind::output_failed, error.message, error.exit_code});
}

bool Job::end(StopCause cause) {
  if (!end_) end_ = cause;
  return attempt_ && attempt_->stop(std::move(cause));
}

void Job::on_signal(int signal) {
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return on_stop_signal(signal);
  if (signal == SIGWINCH) output_->redraw_status();
  attempt_ ? attempt_->on_signal(signal) : on_other_signal(signal);
  if (signal == SIGCONT) input_.on_foreground();
}

void Job::on_stop_signal(int signal) {
  const bool again = end_ || over_;
  const bool is_key = signal == SIGINT;
  // timeout(1) and others signal the process, and then its group: that is one request.
  const auto now = loop_.now();
  const bool by_scheduler = is_real_ && is_scheduler(signals_->sender());
  const auto last = std::exchange(last_stop_signal_, StopSignal{signal, by_scheduler, now});
  const bool has_scheduler = by_scheduler || last.by_scheduler;
  if (!is_key && last.number == signal &&
      now - last.time < (has_scheduler ? kSameAsScheduler : kSameRequest))
    return;
  if (again && by_scheduler) return;  // it is not impatient: SIGKILL comes from it, too
  StopCause cause{EndKind::interrupted, is_key ? "interrupted" : "got " + signal_name(signal),
                  kExitSignalBase + signal};
  if (signal == SIGHUP && terminal_ && terminal_->has_gone())
    cause.reason = "the terminal has gone (SIGHUP)";
  if (is_key && !spec_.stop.signal) cause.first_signal = SIGINT;
  const bool stops = end(std::move(cause));
  const std::string_view key = is_key ? "Ctrl-C" : "the signal";
  if (stops)
    return note(
        fmt::format("{}: stopping {}{}", is_key ? "interrupted" : signal_name(signal),
                    plan_.size ? plural(attempt_->running(*plan_.size), "rank") : "the start",
                    attempt_->describe_stop(key)));
  // The ranks are being stopped for another reason. Only who asks twice does not want to wait, also
  // for a terminal that takes nothing.
  if (!again && attempt_)
    return note(fmt::format("{}: the ranks are being stopped{}",
                            is_key ? "interrupted" : signal_name(signal),
                            attempt_->describe_stop(key)));
  if (again) output_abandoned_ = true;
  if (attempt_) attempt_->shorten_stop(key);
}

// Nothing of the job runs.
void Job::on_other_signal(int signal) {
  if (signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
  if (std::ranges::find(passed_signals(), signal) != passed_signals().end())
    note(warning_text(signal_name(signal) + " came while no rank ran, so no rank received it"));
}

Report Job::finish(Report report) {
  report.wall_seconds = std::chrono::duration<double>(loop_.now() - begun_).count();
  report.attempts = std::move(attempts_);
  auto lines = report_lines(report);
  if (const auto unread = input_.finish(); unread > 0 && !end_)
    lines.push_back(fmt::format(
        "{} of input {} read that no rank took; --stdin none leaves the input to others",
        plural(unread, "byte"), unread == 1 ? "was" : "were"));
  for (auto& line : advice(report, spec_)) lines.push_back(std::move(line));
  const auto joined = [](const RankReport& rank) { return rank.counters.joined; };
  if (!spec_.timeline_file.empty() && report.exit_code == kExitOk &&
      std::ranges::none_of(report.ranks, joined))
    lines.emplace_back("there is no timeline: no rank used libhvd (--timeline-filename)");
  for (const auto& [line, until] : abandoned_) {
    if (loop_.now() >= until) continue;
    lines.push_back(warning_text(line));
    notes_.push_back(line);
  }
  for (const auto& line : lines) note(line);
  over_ = true;
  show_the_rest();
  if (output_->has_lost_notes() && !repeat_last_lines(std::move(lines)) &&
      report.exit_code == kExitOk) {
    report.exit_code = kExitLauncher;
    report.reason = "hvdrun's last lines could not be written";
  }
  report.notes = std::move(notes_);
  if (auto note = spares_without_slot(spec_, plan_.allocation, plan_.placement); !note.empty())
    report.notes.push_back(std::move(note));
  for (auto& loss : output_->losses()) report.notes.push_back(std::move(loss));
  return report;
}

// Shows what is left. A reader that has stopped (a pager, a stopped program) is waited for, as by
// any program, but not by a job that was to stop: whoever asked for that waits for hvdrun.
void Job::show_the_rest() {
  const bool may_give_up = end_ && end_->kind == EndKind::interrupted;
  auto before = output_->pending();
  Timer reader(loop_, [&] {
    const auto now = output_->pending();
    if (std::exchange(before, now) == now)
      output_abandoned_ = true;
    else
      reader.start(kReaderPatience);
  });
  if (may_give_up) reader.start(kReaderPatience);
  while (!output_->idle() && !output_abandoned_) loop_.run_once();
  output_->flush(kLastWords);
  const auto lost = output_->pending();
  if (lost == 0) return;
  notes_.push_back(fmt::format(
      "{} of output {} dropped, because the job was stopped and the reader did not take {} in time",
      plural(lost, "byte"), lost == 1 ? "was" : "were", lost == 1 ? "it" : "them"));
  note(warning_text(notes_.back()));
  output_->flush(kLastWords);
}

// Writes them once more, after what was lost before. Returns whether they are written now.
bool Job::repeat_last_lines(std::vector<std::string> lines) {
  auto again = output_->losses();
  again.insert(again.end(), std::make_move_iterator(lines.begin()),
               std::make_move_iterator(lines.end()));
  return output_->note_again(again, kLastWords);
}

}  // namespace

const std::vector<int>& job_signals() {
  static const std::vector<int> signals = [] {
    std::vector<int> all{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    all.insert(all.end(), passed_signals().begin(), passed_signals().end());
    return all;
  }();
  return signals;
}

Result<Report> run_job(const JobSpec& spec, Plan plan, const JobContext& context,
                       const Simulation* simulation) {
  Job job(spec, std::move(plan), context, simulation);
  return job.run();
}

}  // namespace hvdrun
