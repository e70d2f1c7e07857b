#include "commands/cancel.hpp"

#include "base/severity.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "control/running_jobs.hpp"
#include "output/own_line.hpp"
#include "slurm/job_state.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::string_view kCancelHelp = R"(usage: hvdrun cancel JOB...

Ends jobs of yours, whether they run or wait. Asks no questions.

  JOB     its number; 1234_5 or 1234_[1-3,7] for tasks of an array, whose number names all of them.
          Several also as 33,34
  --help  this text

See also: hvdrun jobs, hvdrun follow JOB
)";

// Returns the records of the job, array or task that the id names.
std::vector<const JobRecord*> find(const JobId& id, const std::vector<JobRecord>& jobs) {
  std::vector<const JobRecord*> found;
  for (const auto& job : jobs) {
    const bool whole = id.kind == JobId::Kind::job || id.kind == JobId::Kind::array_tasks;
    if (whole ? belongs_to(job.id, id.number) || job.number == id.number : job.id == id.text)
      found.push_back(&job);
  }
  return found;
}

// Returns the ids as squeue's --jobs takes them: for a list of tasks the whole array.
std::string listed_ids(const std::vector<JobId>& ids) {
  std::string list;
  for (const auto& id : ids) {
    if (!list.empty()) list += ',';
    list += id.kind == JobId::Kind::array_tasks ? std::to_string(id.number) : id.text;
  }
  return list;
}

Result<std::vector<JobRecord>> look_up(const std::vector<JobId>& ids,
                                       const std::vector<std::string>& environment) {
  HVD_TRY(const auto end, run_slurm({squeue_for_list(listed_ids(ids)), environment, {}}));
  auto answer = read_answer(end);
  if (has_no_cluster(end)) return fail(kNoCluster, kExitNotFound);
  if (answer.kind == QueueAnswer::Kind::no_answer)
    return fail("SLURM does not answer (" + answer.complaint + "); nothing was cancelled");
  return std::move(answer.jobs);
}

bool is_one_of_these(const JobId& id, const std::vector<pid_t>& pids) {
  return id.kind == JobId::Kind::job &&
         std::ranges::find(pids, static_cast<pid_t>(id.number)) != pids.end();
}

std::vector<pid_t> hvdruns_here(const Environment& environment) {
  std::vector<pid_t> pids;
  for (const auto& job : running_jobs(environment)) pids.push_back(job.pid);
  return pids;
}

// Returns scancel's messages, one for each line. Empty if it succeeded.
std::vector<std::string> complaints(const ProgramEnd& end) {
  if (end.code == 0) return {};
  std::vector<std::string> lines;
  std::string_view rest = end.err;
  while (!rest.empty()) {
    const auto newline = std::min(rest.find('\n'), rest.size() - 1);
    const ProgramEnd one{end.code, false, {}, std::string(rest.substr(0, newline + 1))};
    lines.push_back(complaint(one));
    rest.remove_prefix(newline + 1);
  }
  if (lines.empty()) lines.push_back(complaint(end));
  return lines;
}

}  // namespace

Result<std::vector<JobId>> parse_job_ids(const std::vector<std::string>& operands) {
  std::vector<JobId> ids;
  for (const auto& operand : operands) {
    // A comma in brackets is between the tasks of an array.
    std::string word;
    bool in_brackets = false;
    for (const char c : operand + ",") {
      in_brackets = (in_brackets || c == '[') && c != ']';
      if (c != ',' || in_brackets) {
        word += c;
        continue;
      }
      if (word.empty() && operand.size() > 1) continue;  // "33," before another word
      HVD_TRY(auto id, parse_job_id(word));
      ids.push_back(std::move(id));
      word.clear();
    }
    if (!word.empty()) return parse_job_id(operand).error();  // a bracket is missing
  }
  return ids;
}

CancelPlan plan_cancel(const std::vector<JobId>& ids, const std::vector<JobRecord>& jobs,
                       uid_t user, const std::vector<pid_t>& here) {
  CancelPlan plan;
  for (const auto& id : ids) {
    const auto found = find(id, jobs);
    if (found.empty() && is_one_of_these(id, here)) {
      plan.refusals.push_back(
          fmt::format("{0} is no job of SLURM but an hvdrun that runs on this machine; to end it "
                      "and its ranks: kill -INT {0}",
                      id.text));
      continue;
    }
    if (found.empty()) {
      plan.refusals.push_back("SLURM knows no job " + id.text +
                              ": there was none, or it ended some time ago");
      continue;
    }
    const auto& first = *found.front();
    if (user != 0 && first.uid != user) {
      plan.refusals.push_back("job " + id.text + " is not yours but " + escape(first.user) +
                              "'s: it is left alone");
      continue;
    }
    const auto live = std::find_if(found.begin(), found.end(), [](const JobRecord* job) {
      return phase_of(job->state) != JobPhase::ended;
    });
    if (live == found.end()) {
      plan.notes.push_back("job " + id.text + " had ended already: " + state_text(first.state, {}));
      continue;
    }
    plan.to_cancel.push_back(id.text);
    plan.notes.push_back("cancelling job " + id.text + " (" + escape(what_it_runs(**live)) +
                         "), which was " + state_text((*live)->state, (*live)->reason));
  }
  return plan;
}

Result<int> run_cancel(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool all = false;
  HVD_TRY(const auto operands,
          take_flags("hvdrun cancel", args, {{"--help", &help}, {"--all", &all}, {"--me", &all}}));
  if (help) return print_text(kCancelHelp);
  if (all || std::find(operands.begin(), operands.end(), "all") != operands.end())
    return fail(
        "hvdrun cancel takes the numbers of jobs; hvdrun jobs lists yours; scancel --me ends all",
        kExitUsage);
  if (operands.empty())
    return fail("hvdrun cancel needs the numbers of jobs; hvdrun jobs lists yours", kExitUsage);
  HVD_TRY(const auto ids, parse_job_ids(operands));
  const auto environment_block = query_environment(environment);
  auto answer = look_up(ids, environment_block);
  const auto is_known = [&](const JobId& id) { return answer && !find(id, *answer).empty(); };
  const auto here =
      std::ranges::all_of(ids, is_known) ? std::vector<pid_t>() : hvdruns_here(environment);
  const bool all_here =
      std::ranges::all_of(ids, [&](const JobId& id) { return is_one_of_these(id, here); });
  if (!answer && all_here) answer = std::vector<JobRecord>();  // SLURM has nothing to say of them
  HVD_TRY(const auto jobs, std::move(answer));
  const auto plan = plan_cancel(ids, jobs, ::geteuid(), here);
  for (const auto& line : plan.refusals) print_own_line(error_text(line));
  for (const auto& line : plan.notes) print_own_line(line);
  if (!plan.to_cancel.empty()) {
    std::vector<std::string> command = {"scancel"};
    command.insert(command.end(), plan.to_cancel.begin(), plan.to_cancel.end());
    HVD_TRY(const auto end, run_slurm({std::move(command), environment_block, {}}));
    const auto lines = complaints(end);
    for (const auto& line : lines) print_own_line(error_text("scancel: " + line));
    if (!lines.empty()) return kExitLauncher;
  }
  return plan.refusals.empty() ? kExitOk : kExitUsage;
}

}  // namespace hvdrun
