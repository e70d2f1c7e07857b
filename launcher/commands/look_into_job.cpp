#include "commands/look_into_job.hpp"

#include "commands/on_first_host.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "control/running_jobs.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_state.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kSlurmTimeout{10};

std::string command_name(const LookCommand& command) {
  return "hvdrun " + command.word;
}

bool is_here(const std::vector<RunningJob>& jobs, const std::optional<std::string>& name) {
  return std::ranges::any_of(jobs, [&](const RunningJob& job) {
    return !name || std::to_string(job.pid) == *name || job.about.scheduler_job == *name;
  });
}

// Returns what squeue says of the job, or of the user's jobs that run. An answer without jobs may
// be no answer at all: `complaint` then says why.
QueueAnswer ask_slurm(const std::optional<JobId>& id, const Environment& environment) {
  auto words = id ? squeue_for(*id) : squeue_command();
  if (!id) words.insert(words.end(), {"--me", "--states=RUNNING"});
  const auto end = run_slurm({std::move(words), query_environment(environment), {}, kSlurmTimeout});
  if (!end || has_no_cluster(*end)) return {};
  return read_answer(*end);
}

// Returns whether this process runs on the host that SLURM calls so.
bool is_this_host(const std::string& host, const Environment& environment) {
  const auto* const node = find_variable(environment, "SLURMD_NODENAME");
  const auto short_name = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return short_name(node != nullptr ? *node : common::local_host_name()) == short_name(host);
}

Error with_more(Error error, const std::string& more) {
  error.message += "; " + more;
  return error;
}

}  // namespace

Result<JobRecord> choose_slurm_job(const std::vector<JobRecord>& jobs, const LookCommand& command,
                                   uid_t user) {
  std::vector<JobRecord> running;
  for (const auto& job : jobs)
    if (phase_of(job.state) == JobPhase::running && job.uid == user) running.push_back(job);
  if (running.size() == 1) return running.front();
  if (running.size() > 1) {
    std::string list;
    for (const auto& job : running)
      list += fmt::format("\n  {:<8} {}  {}", job.id, job.hosts, escape(what_it_runs(job)));
    return fail(
        fmt::format("{} of yours run in SLURM; name one, such as {} {}:{}",
                    plural(running.size(), "job"), command_name(command), running.front().id, list),
        kExitUsage);
  }
  if (jobs.empty()) return fail("SLURM knows no such job", kExitUsage);
  const auto& job = jobs.front();
  if (job.uid != user)
    return fail(fmt::format("SLURM's job {} is {}'s, and only {} can look into it", job.id,
                            escape(job.user), escape(job.user)),
                kExitUsage);
  const auto state = state_text(job.state, job.reason);
  if (phase_of(job.state) == JobPhase::ended)
    return fail(fmt::format("job {} has ended ({}); hvdrun follow {} shows how", job.id, state,
                            command.job.value_or(job.id)),
                kExitUsage);
  const auto why = explain_reason(job.reason);
  return fail(
      fmt::format("job {} does not run yet: {}{}{}; hvdrun follow {} shows when it starts", job.id,
                  state, why.empty() ? "" : ": ", why, command.job.value_or(job.id)),
      kExitUsage);
}

Result<int> look_into_job(const LookCommand& command, const Environment& environment,
                          const std::function<Result<int>(ControlClient client)>& here) {
  const auto jobs = running_jobs_with(command.job, environment);
  const auto connect = [&](const std::optional<std::string>& name) -> Result<int> {
    HVD_TRY(auto client, connect_to_job(jobs, name, command_name(command)));
    return here(std::move(client));
  };
  std::optional<JobId> id;
  if (command.job) {
    const auto parsed = parse_job_id(*command.job);
    if (!parsed) return connect(command.job);
    id = *parsed;
  }
  if (is_here(jobs, command.job)) return connect(command.job);
  const auto answer = ask_slurm(id, environment);
  auto not_here = choose_job(jobs, command.job, command_name(command)).error();
  if (answer.kind == QueueAnswer::Kind::no_answer) {
    if (answer.complaint.empty()) return not_here;
    return with_more(std::move(not_here), "SLURM does not answer: " + answer.complaint);
  }
  if (answer.jobs.empty() && !command.job) return not_here;
  if (answer.jobs.empty()) return with_more(std::move(not_here), "SLURM knows no such job");
  HVD_TRY(const auto job, choose_slurm_job(answer.jobs, command, ::geteuid()));
  const auto number = std::to_string(job.number);
  if (is_here(jobs, number)) return connect(number);
  if (is_this_host(job.batch_host, environment))
    return fail(fmt::format("job {} runs here, on its first host, but no hvdrun of yours that can "
                            "be looked into: it has not begun, has ended, or was started elsewhere",
                            job.id),
                kExitUsage);
  auto words = std::vector<std::string>{command.word};
  words.insert(words.end(), command.options.begin(), command.options.end());
  words.push_back(number);
  return run_on_first_host({job.id, number, job.batch_host, std::move(words), command.draws},
                           environment);
}

}  // namespace hvdrun
