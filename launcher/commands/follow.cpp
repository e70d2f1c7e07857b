#include "commands/follow.hpp"

#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "commands/subcommand.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "slurm/job_end.hpp"
#include "slurm/job_record.hpp"
#include "slurm/job_state.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <utility>

#include <poll.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A file that is older than the job by this much is an earlier one's. Less may be the clocks.
constexpr std::int64_t kOlderNs = std::int64_t{60} * 1'000'000'000;

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<int> kFollowSignals = {SIGINT, SIGTERM, SIGHUP};

// squeue itself gives up after some multiple of SLURM's MessageTimeout, 10 s by default.
constexpr seconds kQueryTimeout{120};

constexpr std::size_t kLook = 256 * 1024;
constexpr milliseconds kShortestLook{50};
constexpr milliseconds kLongestLook{1000};

// How long a started job's file may be missing before that is worth a line, and how long after the
// job's end it may still appear: NFS remembers for some seconds that there was none.
constexpr seconds kFileIsLate{10};
constexpr seconds kFileMayStillAppear{2};

// After an interrupt: for what is to be told, where the reader is slow.
constexpr int kLastWordsMs = 200;

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

constexpr std::string_view kFollowHelp = R"(usage: hvdrun follow [--no-output] JOB

Shows how a job of yours stands in SLURM's queue, and its output as it grows, until it ends. Ctrl-C
leaves the job running; the same command comes back to it. The exit code is the job's.

  JOB          its number, or 1234_5 for a task of an array; of a whole array only the state is shown
  --no-output  only how it stands
  --help       this text

See also: hvdrun jobs, hvdrun cancel JOB
)";

}  // namespace

void JobOutput::take(const JobRecord& job) {
  job_ = "job " + job.id;
  const auto paths = output_paths(job);
  if (paths.out.empty()) return;
  // Once it has run, what stands there is its own.
  if (phase_of(job.state) == JobPhase::pending && job.restarts > 0) return;
  if (phase_of(job.state) == JobPhase::pending) {
    marks_.clear();
    for (const auto& path : {paths.out, paths.err})
      if (!path.empty()) marks_[path] = mark_of(path);
    return;
  }
  if (job.hosts.empty() && job.batch_host.empty()) return;  // it was cancelled before it had any
  host_ = job.batch_host;
  if (paths.out == paths_.out && paths.err == paths_.err) return;
  paths_ = paths;
  files_.clear();
  files_.push_back({OutputTail(paths.out, before(paths.out, job)), false});
  if (!paths.err.empty()) files_.push_back({OutputTail(paths.err, before(paths.err, job)), true});
}

std::optional<FileMark> JobOutput::before(const std::string& path, const JobRecord& job) const {
  if (const auto known = marks_.find(path); known != marks_.end()) return known->second;
  if (job.restarts > 0) return std::nullopt;
  auto mark = mark_of(path);
  const bool is_older =
      mark && job.start && mark->changed_ns < *job.start * std::int64_t{1'000'000'000} - kOlderNs;
  return is_older ? mark : std::nullopt;
}

bool JobOutput::all_appeared() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const File& file) { return file.tail.has_appeared(); });
}

bool JobOutput::may_appear() const {
  return std::any_of(files_.begin(), files_.end(), [](const File& file) {
    std::error_code ignored;
    return !file.tail.has_appeared() && file.tail.access_error().empty() &&
           std::filesystem::is_directory(std::filesystem::path(file.tail.path()).parent_path(),
                                         ignored);
  });
}

std::vector<std::string> JobOutput::missing() const {
  std::vector<std::string> lines;
  for (const auto& file : files_) {
    if (file.tail.has_appeared() || !file.tail.access_error().empty()) continue;
    lines.push_back((file.is_stderr ? "the stderr of " : "the output of ") + job_ + " goes to " +
                    quote_if_needed(file.tail.path()) +
                    (host_.empty() ? "" : " on " + escape(host_)) +
                    ", which is not to be seen on this host (" + local_host_name() + ")");
  }
  return lines;
}

std::string news_text(OutputTail::News news, const OutputTail& tail) {
  const std::string path = quote_if_needed(tail.path());
  switch (news) {
    case OutputTail::News::none:
    case OutputTail::News::appeared:
      return {};
    case OutputTail::News::shortened:
      return path + " was cut short; this is from its start";
    case OutputTail::News::replaced:
      return path + " is another file now; this is from its start";
    case OutputTail::News::removed:
      return path +
             " was removed; what is still written into it is shown as long as it can be read";
    case OutputTail::News::no_access:
      return "cannot read " + path + ": " + tail.access_error();
  }
  return {};
}

Follower::Place::Place(const EventLoop& loop, int fd, const char* name, Follower& owner)
    : sink(fd, name),
      writable(loop, sink.wait_fd(), FdEvent::writable, [this, &owner] { owner.pump(*this); }) {}

Follower::Follower(const JobId& id, const Environment& environment, std::optional<JobOutput> output)
    : id_(id),
      environment_(query_environment(environment)),
      with_output_(output.has_value()),
      signals_(loop_, not_ignored(kFollowSignals), [this](int signal) { interrupted(signal); }),
      out_(loop_, STDOUT_FILENO, "hvdrun's stdout", *this),
      watch_(id),
      output_(std::move(output).value_or(JobOutput())),
      ask_timer_(loop_, [this] { ask(); }),
      look_timer_(loop_, [this] { look(); }),
      look_pause_(kShortestLook) {
  if (!same_place(STDOUT_FILENO, STDERR_FILENO))
    err_.emplace(loop_, STDERR_FILENO, "hvdrun's stderr", *this);
}

Result<int> Follower::run() {
  ask_timer_.start(milliseconds(0));
  loop_.run();
  return std::move(result_);
}

void Follower::ask() {
  asked_ = now();
  auto call = ProgramRun::start(loop_, {squeue_for(id_), environment_, {}, kQueryTimeout},
                                [this](const ProgramEnd& end) { take_answer(end); });
  if (call) {
    call_ = std::move(*call);
  } else if (is_not_installed(call.error())) {
    stop(explain_start_failure("squeue", std::move(call).error()));
  } else {
    take_answer({kExitLauncher, false, {}, call.error().message});
  }
}

void Follower::take_answer(const ProgramEnd& end) {
  const bool is_first = !watch_.job() && !watch_.is_array();
  if (is_first && has_no_cluster(end)) return stop(fail(kNoCluster, kExitNotFound));
  const auto answer = read_answer(end);
  if (is_first && !answer.jobs.empty() && ::geteuid() != 0 &&
      answer.jobs.front().uid != ::geteuid()) {
    stop(fail("job " + id_.text + " is not yours but " + escape(answer.jobs.front().user) +
                  "'s; hvdrun jobs lists yours",
              kExitUsage));
    return;
  }
  for (const auto& line : watch_.take(answer, {std::time(nullptr), now()})) note(line);
  if (watch_.wants_accounting()) {
    ask_accounting();
  } else {
    after_answer();
  }
}

void Follower::ask_accounting() {
  auto call = ProgramRun::start(loop_, {sacct_command(id_.text), environment_, {}, kQueryTimeout},
                                [this](const ProgramEnd& end) { take_accounting(end); });
  if (call) {
    call_ = std::move(*call);
  } else {
    take_accounting({kExitLauncher, false, {}, {}});  // as where no accounting is kept
  }
}

void Follower::take_accounting(const ProgramEnd& end) {
  watch_.take_accounting(end.code == 0 ? parse_accounting(end.out) : std::vector<JobEnd>());
  after_answer();
}

void Follower::after_answer() {
  if (watch_.end() && !watch_.end()->known) {
    stop(fail("SLURM knows no job " + id_.text +
                  ": there was none, or it ended some time ago; hvdrun jobs --all lists yours",
              kExitUsage));
    return;
  }
  if (watch_.job() && with_output_) {
    output_.take(*watch_.job());
    if (!output_.files().empty() && !waits_for_file_since_) waits_for_file_since_ = now();
    if (!output_.files().empty() && !look_timer_.pending()) look_timer_.start(milliseconds(0));
  }
  if (watch_.end()) {
    ended_ = now();
    look_pause_ = kShortestLook;
    look_timer_.start(milliseconds(0));
    return;
  }
  // A busy SLURM is not asked more often than it can answer.
  const auto took = std::chrono::duration_cast<milliseconds>(now() - asked_);
  ask_timer_.start(std::max(watch_.pause(now()), took));
}

void Follower::look() {
  bool got_some = false;
  for (auto& file : output_.files()) got_some |= look_at(file);
  if (stopping_) return;
  look_pause_ = got_some ? kShortestLook : std::min(look_pause_ * 3 / 2, kLongestLook);
  tell_where_output_is();
  if (ended_) {
    // Twice, since a file that has just ended may have been looked at before its last bytes came.
    quiet_looks_ = got_some ? 0 : quiet_looks_ + 1;
    const bool waits = output_.may_appear() && now() - *ended_ < kFileMayStillAppear;
    if (output_.files().empty() || (quiet_looks_ >= 2 && !waits)) {
      end_of_job();
      return;
    }
    look_pause_ = std::min(look_pause_, kShortestLook * 2);
  }
  look_timer_.start(look_pause_);
}

// Whether there was something, or may be more.
bool Follower::look_at(JobOutput::File& file) {
  if (is_congested(file.is_stderr)) return true;
  const auto seen = file.tail.look(kLook);
  show(place(file.is_stderr), seen.bytes);
  if (const auto text = news_text(seen.news, file.tail); !text.empty()) note(text);
  return !seen.bytes.empty() || !seen.at_end;
}

void Follower::tell_where_output_is() {
  if (told_about_file_ || ended_ || output_.all_appeared() || !waits_for_file_since_) return;
  if (now() - *waits_for_file_since_ < kFileIsLate) return;
  told_about_file_ = true;
  for (const auto& line : output_.missing()) note(line + " yet");
}

void Follower::end_of_job() {
  for (const auto& line : output_.missing()) note(line);
  note(watch_.end()->text);
  stopping_ = watch_.end()->exit_code;
  stop_when_shown();
}

void Follower::interrupted(int signal) {
  if (stopping_) {
    stop(kExitSignalBase + signal);
    return;
  }
  stopping_ = kExitSignalBase + signal;
  out_.sink.queue().clear();
  note("job " + id_.text + " goes on; to come back: hvdrun follow " + id_.text +
       "; to end it: hvdrun cancel " + id_.text);
  Sink& sink = place(true).sink;
  while (sink.pump() == Sink::State::blocked) {
    pollfd waiting{sink.wait_fd(), POLLOUT, 0};
    if (::poll(&waiting, 1, kLastWordsMs) <= 0) break;
  }
  stop(*stopping_);
}

void Follower::note(std::string_view text) {
  Place& where = place(true);
  const std::string newline = where.in_line && where.sink.is_terminal() ? "\n" : "";
  show(where, newline + "hvdrun: " + std::string(text) + "\n");
}

void Follower::show(Place& where, std::string_view bytes) {
  if (bytes.empty()) return;
  where.sink.queue().append(bytes);
  where.in_line = bytes.back() != '\n';
  pump(where);
}

void Follower::pump(Place& where) {
  auto state = Sink::State::more;
  while (state == Sink::State::more) state = where.sink.pump();
  if (where.sink.error() && !stopping_) {
    stopping_ = where.sink.error()->exit_code;  // nobody reads any more; the job goes on
    stop(*stopping_);
  } else if (state == Sink::State::blocked) {
    where.writable.enable();
  } else {
    where.writable.disable();
    stop_when_shown();
  }
}

void Follower::stop_when_shown() {
  if (!stopping_) return;
  if (out_.sink.pending() == 0 && (!err_ || err_->sink.pending() == 0)) stop(*stopping_);
}

void Follower::stop(Result<int> result) {
  result_ = std::move(result);
  loop_.stop();
}

Result<int> follow_job(const JobId& id, std::optional<JobOutput> output,
                       const Environment& environment) {
  if (id.kind == JobId::Kind::array_tasks)
    return fail("one task of an array is followed at a time: hvdrun follow " +
                    std::to_string(id.number) + "_N; or all of them: hvdrun follow " +
                    std::to_string(id.number),
                kExitUsage);
  block_signals(not_ignored({SIGINT, SIGTERM, SIGHUP}));
  std::signal(SIGPIPE, SIG_IGN);
  return Follower(id, environment, std::move(output)).run();
}

Result<int> run_follow(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool no_output = false;
  HVD_TRY(const auto operands,
          take_flags("hvdrun follow", args, {{"--help", &help}, {"--no-output", &no_output}}));
  if (help) return print_text(kFollowHelp);
  if (operands.size() != 1)
    return fail(operands.empty() ? "hvdrun follow needs a job's number; hvdrun jobs lists yours"
                                 : "hvdrun follow takes one job",
                kExitUsage);
  HVD_TRY(const JobId id, parse_job_id(operands.front()));
  return follow_job(id, no_output ? std::nullopt : std::optional(JobOutput()), environment);
}

}  // namespace hvdrun
