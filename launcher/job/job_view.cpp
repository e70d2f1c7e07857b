#include "job/job_view.hpp"

#include "base/version.hpp"
#include "control/running_jobs.hpp"
#include "hang/verdict_json.hpp"

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kOpenDelay{50};

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
  };
};

JobView::JobView(Job job)
    : job_(job), begun_(std::time(nullptr)), open_timer_(job.loop, [this] { open(); }) {
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
    why_ = server.error().message;
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

void JobView::about(const ControlJson& /*arguments*/, const ControlAnswer& answer) {
  JobAbout about;
  about.id = job_.identity.id;
  about.pid = ::getpid();
  about.version = kVersion;
  if (const auto* job = find_variable(job_.context.environment, "SLURM_JOB_ID"))
    about.slurm_job = *job;
  about.command = job_.spec.command;
  about.folder = job_.spec.working_directory.string();
  about.begun = static_cast<double>(begun_);
  about.phase = phase();
  about.ranks = job_.plan.placement.size;
  about.hosts = static_cast<int>(job_.plan.placement.hosts.size());
  about.restarts = job_.identity.restart_count;
  about.output_folder = job_.spec.output.directory.string();
  answer(json_line(to_json(about)));
}

void JobView::why(const ControlJson& /*arguments*/, const ControlAnswer& answer) {
  const auto now = phase();
  if (!job_.attempt || (now != "running" && now != "stopping"))
    return answer(fail("no ranks run: the job is " + now));
  job_.attempt->why([answer](const HangReport& report) { answer(verdict_json(report)); });
}

}  // namespace hvdrun
