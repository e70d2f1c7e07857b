#include "job/job_view.hpp"

#include "base/severity.hpp"
#include "base/version.hpp"
#include "control/job_now_json.hpp"
#include "control/running_jobs.hpp"
#include "hang/verdict_json.hpp"
#include "job/job_now.hpp"
#include "schedulers/schedulers.hpp"

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOpenDelay{50};
// Who asks for the state once a second gets a new one each time.
constexpr milliseconds kFresh{800};
constexpr std::size_t kMostOutput = 512u << 10;  // bytes of an answer

}  // namespace

// The words that can be asked, each with the function that answers. It may keep `answer`, and
// answer later.
struct JobView::Words {
  struct Row {
    std::string_view word;
    void (JobView::*function)(const ControlJson& arguments, const ControlAnswer& answer);
  };
  static constexpr std::array table{
      Row{"about", &JobView::about},
      Row{"why", &JobView::why},
      Row{"logs", &JobView::logs},
      Row{"state", &JobView::state},
  };
};

JobView::JobView(Job job)
    : job_(job),
      begun_(std::time(nullptr)),
      begun_at_(job.loop.now()),
      open_timer_(job.loop, [this] { open(); }),
      question_(job.loop) {
  open_timer_.start(kOpenDelay);
}

void JobView::open() {
  auto server = ControlServer::start(job_.loop, job_.context.environment, job_.identity.id,
                                     [this](const ControlRequest& request, ControlAnswer answer) {
                                       this->answer(request, std::move(answer));
                                     });
  if (server)
    server_ = std::move(*server);
  else
    job_.output.note(
        warning_text("`hvdrun why`, `hvdrun top` and `hvdrun logs` cannot look into this job: " +
                     server.error().message));
  if (const auto& metrics = job_.spec.metrics; metrics.port || !metrics.file.empty())
    metrics_.emplace(
        job_.loop, metrics,
        [this](std::function<void(const JobNow&)> answer) {
          with_state([this, answer = std::move(answer)] { answer(*state_); });
        },
        [this](const std::string& line) { job_.output.note(line); });
}

void JobView::answer(const ControlRequest& request, ControlAnswer answer) {
  for (const auto& [word, function] : Words::table)
    if (word == request.word) return (this->*function)(request.arguments, answer);
  answer(fail(
      fmt::format("this job's hvdrun ({}) does not know the word \"{}\"", kVersion, request.word),
      kExitUsage));
}

std::string JobView::phase() const {
  if (job_.over) return "over";
  return std::string(job_.attempt ? job_.attempt->phase_name() : "restarting");
}

// Returns how many ranks there are, with those that were started later and those that are lost.
int JobView::ranks_in_all() const {
  return job_.attempt ? static_cast<int>(job_.attempt->parts().table.ranks().size())
                      : job_.plan.placement.size;
}

void JobView::count_roles(JobAbout& about) const {
  about.ranks = 0;
  for (const auto& rank : job_.attempt->parts().table.ranks()) {
    const auto role = job_.attempt->role_of(rank.placement.rank);
    if (role == "member") ++about.ranks;
    if (role == "lost") ++about.lost;
    if (role == "spare" && !rank.exited) ++about.spares;
  }
}

JobAbout JobView::describe() const {
  JobAbout about;
  about.id = job_.identity.id;
  about.pid = ::getpid();
  about.version = kVersion;
  if (const auto* scheduler = scheduler_of(job_.context.environment)) {
    about.scheduler = scheduler->name();
    about.scheduler_job = scheduler->job_id(job_.context.environment).value_or("");
  }
  about.command = job_.spec.command;
  about.folder = job_.spec.working_directory.string();
  about.begun = static_cast<double>(begun_);
  about.phase = phase();
  about.ranks = about.ranks_in_all = ranks_in_all();
  if (job_.attempt) count_roles(about);
  about.hosts = static_cast<int>(job_.plan.placement.hosts.size());
  about.restarts = job_.identity.restart_count;
  about.output_folder = job_.spec.output.directory.string();
  return about;
}

// --- the words -----------------------------------------------------------------------------------

void JobView::about(const ControlJson& /*arguments*/, const ControlAnswer& answer) {
  answer(json_line(to_json(describe())));
}

// {"after": N}: what ranks have printed after the chunk N, as far as it is kept. Its bytes are
// characters of the same number, because they need not be UTF-8. {"follower": PID} gets what is
// left at the job's end without asking.
void JobView::logs(const ControlJson& arguments, const ControlAnswer& answer) {
  auto last = arguments.value("after", std::uint64_t{0});
  answer(logs_after(last, last));
  if (const int follower = arguments.value("follower", 0); follower > 0)
    followers_[follower] = {last, answer};
}

// Sets `last` to the number of the last chunk that is in it.
std::string JobView::logs_after(std::uint64_t number, std::uint64_t& last) const {
  ControlJson list = ControlJson::array();
  for (const auto* chunk : job_.output.recent().after(number, kMostOutput)) {
    last = chunk->number;
    list.push_back({{"number", chunk->number},
                    {"follows", chunk->follows},
                    {"rank", chunk->rank},
                    {"stderr", chunk->stream == Stream::err},
                    {"begins_line", chunk->begins_line},
                    {"text", text_of_bytes(chunk->bytes)}});
  }
  return json_line({{"chunks", std::move(list)}, {"ranks", ranks_in_all()}});
}

JobView::~JobView() {
  for (auto& [pid, follower] : followers_)
    follower.answer(logs_after(follower.last, follower.last));
}

void JobView::state(const ControlJson& /*arguments*/, const ControlAnswer& answer) {
  with_state([this, answer] {
    if (state_text_.empty()) state_text_ = json_line(to_json(*state_));
    answer(state_text_);
  });
}

// Calls `ready` when state_ is of this moment.
void JobView::with_state(std::function<void()> ready) {
  if (state_ && job_.loop.now() - state_made_ < kFresh) return ready();
  asking_.push_back(std::move(ready));
  if (!question_.is_open()) ask_agents();
}

// At the end of an attempt the question ends with what was answered.
void JobView::ask_agents() {
  if (!job_.attempt) return answer_state({});
  question_.ask(*job_.attempt->parts().questions, {.wanted = Wanted::use}, kAnswerTime,
                [this](const Answers& answers) { answer_state(answers); });
}

void JobView::answer_state(const Answers& answers) {
  auto& now = state_.emplace();
  now.about = describe();
  now.seconds = std::chrono::duration<double>(job_.loop.now() - begun_at_).count();
  if (job_.attempt) describe_attempt(*job_.attempt, answers, now);
  state_text_.clear();
  state_made_ = job_.loop.now();
  for (const auto& ready : std::exchange(asking_, {})) ready();
}

void JobView::why(const ControlJson& /*arguments*/, const ControlAnswer& answer) {
  const auto now = phase();
  if (!job_.attempt || (now != "running" && now != "stopping"))
    return answer(fail("no ranks run: the job is " + now));
  job_.attempt->why([answer](const HangReport& report) { answer(verdict_json(report)); });
}

}  // namespace hvdrun
