#include "commands/follower.hpp"

#include "base/severity.hpp"
#include "base/system.hpp"
#include "commands/own_job.hpp"
#include "common/text.hpp"
#include "output/color.hpp"
#include "output/own_line.hpp"
#include "slurm/job_end.hpp"
#include "slurm/job_record.hpp"
#include "slurm/output_path.hpp"
#include "slurm/partitions.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <utility>

#include <poll.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<int> kFollowSignals = {SIGINT, SIGTERM, SIGHUP};

// squeue itself gives up after a few times SLURM's MessageTimeout, which is 10 s by default.
constexpr seconds kQueryTimeout{120};

constexpr std::size_t kLook = 256 * 1024;  // the most bytes of one look at a file
constexpr milliseconds kShortestLook{50};
constexpr milliseconds kLongestLook{1000};

// How long the file of a started job may be missing before a line says so, and how long after the
// job's end it may still appear. An NFS client caches for some seconds that there was no such file.
constexpr seconds kFileIsLate{10};
constexpr seconds kFileMayStillAppear{2};

// How long to wait for a slow reader of the last line after an interrupt.
constexpr int kLastWordsMs = 200;

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Follower::Stream::Stream(const EventLoop& loop, int fd, const char* name, Follower& owner)
    : sink(fd, name),
      writable(loop, sink.wait_fd(), FdEvent::writable, [this, &owner] { owner.pump(*this); }) {}

Follower::Follower(const JobId& id, const Environment& environment, std::optional<JobOutput> output)
    : id_(id),
      environment_(query_environment(environment)),
      is_own_job_(is_own_job(id, environment)),
      with_output_(output.has_value()),
      signals_(loop_, not_ignored(kFollowSignals), [this](int signal) { on_signal(signal); }),
      out_(loop_, STDOUT_FILENO, "hvdrun's stdout", *this),
      watch_(id,
             [this](const std::string& partition) {
               return describe_partition(query_partitions(environment_), partition);
             }),
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
  // Only a job with a script has output that its other shells may look at.
  if (is_first && is_own_job_ && !answer.jobs.empty() && !answer.jobs.front().is_batch)
    return stop(follows_itself(id_));
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
    take_accounting({kExitLauncher, false, {}, {}});  // as if SLURM kept no accounting
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
  // Waits at least as long as the answer took, so that a busy SLURM can keep up.
  const auto took = std::chrono::duration_cast<milliseconds>(now() - asked_);
  ask_timer_.start(std::max(watch_.pause(now()), took));
}

void Follower::look() {
  bool got_some = false;
  for (auto& file : output_.files()) got_some |= look_at(file);
  if (stopping_) return;
  look_pause_ = got_some ? kShortestLook : std::min(look_pause_ * 3 / 2, kLongestLook);
  report_missing_output();
  if (ended_) {
    // Needs two looks in a row without news: the first may have been just before the last bytes
    // arrived.
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

// Shows what is new in a file. Returns whether there was something new, or may be more.
bool Follower::look_at(JobOutput::File& file) {
  if (is_congested(file.is_stderr)) return true;
  const auto seen = file.tail.look(kLook);
  file.failure.take(seen.bytes);
  show(stream(file.is_stderr), seen.bytes);
  if (const auto text = news_text(seen.news, file.tail); !text.empty()) note(text);
  return !seen.bytes.empty() || !seen.at_end;
}

void Follower::report_missing_output() {
  if (missing_reported_ || ended_ || output_.all_appeared() || !waits_for_file_since_) return;
  if (now() - *waits_for_file_since_ < kFileIsLate) return;
  missing_reported_ = true;
  for (const auto& line : output_.missing()) note(line + " yet");
}

void Follower::end_of_job() {
  for (const auto& line : output_.missing()) note(line);
  if (watch_.end()->exit_code == 0)
    for (const auto& file : output_.files())
      if (!file.failure.text().empty())
        note(warning_text("hvdrun has reported an error, and the script has continued: " +
                          file.failure.text()));
  note(watch_.end()->text + where_output_is());
  stopping_ = watch_.end()->exit_code;
  stop_when_shown();
}

// Returns "; its output is in FILE" for a job that failed and whose output was not shown.
std::string Follower::where_output_is() const {
  if (with_output_ || watch_.end()->exit_code == 0 || !watch_.job()) return {};
  const auto paths = output_paths(*watch_.job());
  if (paths.out.empty()) return {};
  return "; its output is in " + escape(paths.out) +
         (paths.err.empty() ? "" : " and " + escape(paths.err));
}

void Follower::on_signal(int signal) {
  if (stopping_) {
    stop(kExitSignalBase + signal);
    return;
  }
  stopping_ = kExitSignalBase + signal;
  out_.sink.queue().clear();
  note("job " + id_.text + " continues; to come back: hvdrun follow " + id_.text +
       "; to end it: hvdrun cancel " + id_.text);
  Sink& sink = stream(true).sink;
  while (sink.pump() == Sink::State::blocked) {
    pollfd waiting{sink.wait_fd(), POLLOUT, 0};
    if (::poll(&waiting, 1, kLastWordsMs) <= 0) break;
  }
  stop(*stopping_);
}

void Follower::note(std::string_view text) {
  Stream& where = stream(true);
  const std::string newline = where.in_line && where.sink.is_terminal() ? "\n" : "";
  const bool is_colored = wants_color(ColorMode::automatic, where.sink.is_terminal(),
                                      TerminalEnvironment::of_process());
  show(where, newline + own_line(text, is_colored) + "\n");
}

void Follower::show(Stream& where, std::string_view bytes) {
  if (bytes.empty()) return;
  where.sink.queue().append(bytes);
  where.in_line = bytes.back() != '\n';
  pump(where);
}

void Follower::pump(Stream& where) {
  auto state = Sink::State::more;
  while (state == Sink::State::more) state = where.sink.pump();
  if (where.sink.error() && !stopping_) {
    stopping_ = where.sink.error()->exit_code;  // the reader is gone; the job continues
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

}  // namespace hvdrun
