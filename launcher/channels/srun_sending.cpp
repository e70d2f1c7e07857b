#include "channels/srun_sending.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>

namespace hvdrun {

Result<std::unique_ptr<SrunSending>> SrunSending::start(const EventLoop& loop, SrunOptions options,
                                                        std::vector<std::string> hosts,
                                                        std::vector<std::string> environment,
                                                        Done done) {
  std::unique_ptr<SrunSending> sending(new SrunSending(loop, std::move(options), std::move(hosts),
                                                       std::move(environment), std::move(done)));
  HVD_TRY(sending->file_, read_agent_file());
  sending->file_.content.shrink_to_fit();
  const std::string first = sending->hosts_.front();
  sending->hosts_.erase(sending->hosts_.begin());
  HVD_CHECK(sending->start_step({first}));
  return sending;
}

SrunSending::SrunSending(const EventLoop& loop, SrunOptions options, std::vector<std::string> hosts,
                         std::vector<std::string> environment, Done done)
    : loop_(loop),
      options_(std::move(options)),
      hosts_(std::move(hosts)),
      environment_(std::move(environment)),
      done_(std::move(done)),
      ended_(loop, [this] { on_step_ended(); }) {}

Result<void> SrunSending::start_step(const std::vector<std::string>& hosts) {
  const Fd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!program) return fail_errno("cannot read hvdrun's own file", errno);
  const auto command = srun_step_command(options_, hosts, receive_command(*options_.sent, file_));
  HVD_TRY(step_, SrunStep::start(loop_, command, environment_,
                                 {[this](const SrunLine& line) { on_line(line); },
                                  [this] { ended_.start(std::chrono::milliseconds(0)); }},
                                 program.get()));
  return {};
}

void SrunSending::on_line(const SrunLine& line) {
  if (auto end = line.task ? std::nullopt : parse_task_end(line.text))
    ends_.push_back(std::move(*end));
  lines_.push_back(line);
}

void SrunSending::on_step_ended() {
  const int status = *step_->wait_status();
  auto failures = explain_task_ends(std::exchange(ends_, {}), lines_, options_.agent_path);
  if (failures.empty() && status != 0) failures = {explain_srun_failure(status, lines_)};
  lines_.clear();
  failures_.insert(failures_.end(), failures.begin(), failures.end());
  if (!hosts_.empty()) {
    const auto started = start_step(std::exchange(hosts_, {}));
    if (started) return;
    failures_.push_back({{}, started.error().message});
  }
  // They outlive this object, which `done` may destroy.
  const Done done = done_;
  const auto all = std::move(failures_);
  done(all);
}

}  // namespace hvdrun
