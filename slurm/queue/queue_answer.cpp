#include "slurm/queue/queue_answer.hpp"

#include "slurm/queue/slurm_command.hpp"

namespace hvdrun {

std::vector<std::string> squeue_for(const JobId& id) {
  auto command = squeue_command();
  command.emplace_back("--states=all");
  if (id.kind == JobId::Kind::array_task) command.emplace_back("--array");
  command.push_back("--jobs=" + id.text);
  return command;
}

QueueAnswer read_answer(const ProgramEnd& end) {
  using Kind = QueueAnswer::Kind;
  if (end.code == 0) {
    auto jobs = parse_jobs(end.out);
    const Kind kind = jobs.empty() ? Kind::no_such_job : Kind::jobs;
    return {kind, std::move(jobs), {}};
  }
  // slurm_errno.c, ESLURM_INVALID_JOB_ID; the same from 20.11 to 24.11.
  if (!end.timed_out && end.err.find("Invalid job id") != std::string::npos)
    return {Kind::no_such_job, {}, {}};
  return {Kind::no_answer, {}, complaint(end)};
}

}  // namespace hvdrun
