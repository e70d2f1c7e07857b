#include "commands/jobs.hpp"

#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"
#include "slurm/job_state.hpp"
#include "slurm/output_path.hpp"
#include "slurm/slurm_command.hpp"
#include "slurm/times.hpp"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hvdrun {

namespace {

using Json = nlohmann::ordered_json;

// Names and lists are cut in the table so that what else there is to see stays on the screen.
constexpr std::size_t kLongestId = 24;
constexpr std::size_t kLongestName = 32;
constexpr std::size_t kLongestReason = 40;

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// The first `columns` characters of UTF-8 text, the last of them "…" where that is not all.
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t characters = 0;
  std::size_t fits = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_continuation(text[i])) continue;
    if (characters + 1 == columns) fits = i;
    if (++characters > columns) return text.substr(0, fits) + "…";
  }
  return text;
}

std::string start_text(const JobRecord& job, std::time_t now) {
  return job.start ? moment_text(*job.start, now) : "-";
}

std::string elapsed_text(const JobRecord& job) {
  const bool has_run = job.elapsed && phase_of(job.state) != JobPhase::pending;
  return has_run ? duration_text(*job.elapsed) : "-";
}

std::string left_text(const JobRecord& job) {
  if (job.left) return duration_text(*job.left);
  return job.limit ? "0:00" : "no limit";
}

template <class Duration>
Json seconds_or_null(const std::optional<Duration>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json job_json(const JobRecord& job) {
  const auto paths = output_paths(job);
  const bool pending = phase_of(job.state) == JobPhase::pending;
  Json exit_code;
  Json signal;
  if (job.exit && phase_of(job.state) == JobPhase::ended) {
    exit_code = job.exit->code;
    signal = job.exit->signal;
  }
  return {{"id", job.id},
          {"name", job.name},
          {"state", job.state},
          {"reason", job.reason == "None" ? Json(nullptr) : text_or_null(job.reason)},
          {"partition", job.partition},
          {"nodes", job.nodes},
          {"hosts", text_or_null(job.hosts)},
          {"elapsed", seconds_or_null(job.elapsed)},
          {"left", seconds_or_null(job.left)},
          {"submitted", job.submitted ? Json(*job.submitted) : Json(nullptr)},
          {pending ? "expected_start" : "start", job.start ? Json(*job.start) : Json(nullptr)},
          {"restarts", job.restarts},
          {"exit_code", std::move(exit_code)},
          {"signal", std::move(signal)},
          {"runs", what_it_runs(job)},
          {"output", text_or_null(paths.out)},
          {"work_dir", text_or_null(job.work_dir)}};
}

constexpr std::string_view kJobsHelp = R"(usage: hvdrun jobs [--all] [--json]

Your jobs in SLURM's queue: how each stands, why it waits and when SLURM expects it to start, how
long it has run and may still run, and what it runs.

  --all   those too that have ended and that SLURM still remembers (MinJobAge, often five minutes)
  --json  as an array of objects: times in seconds, moments in seconds since 1970
  --help  this text

See also: hvdrun follow JOB, hvdrun cancel JOB
)";

std::size_t terminal_columns() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

constexpr std::string_view kCancelHelp = R"(usage: hvdrun cancel JOB...

Ends jobs of yours, whether they run or wait. Nothing is asked.

  JOB     its number; 1234_5 or 1234_[1-3,7] for tasks of an array, whose number stands for all
  --help  this text

See also: hvdrun jobs, hvdrun follow JOB
)";

// What squeue listed of the job, array or task that is meant.
std::vector<const JobRecord*> find(const JobId& id, const std::vector<JobRecord>& jobs) {
  std::vector<const JobRecord*> found;
  for (const auto& job : jobs) {
    const bool whole = id.kind == JobId::Kind::job || id.kind == JobId::Kind::array_tasks;
    if (whole ? belongs_to(job.id, id.number) || job.number == id.number : job.id == id.text)
      found.push_back(&job);
  }
  return found;
}

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
  auto command = squeue_command();
  command.emplace_back("--states=all");
  command.push_back("--jobs=" + listed_ids(ids));
  HVD_TRY(const auto end, run_slurm({std::move(command), environment, {}}));
  auto answer = read_answer(end);
  if (answer.kind == QueueAnswer::Kind::no_answer)
    return fail("SLURM does not answer (" + answer.complaint + "); nothing was cancelled");
  return std::move(answer.jobs);
}

// scancel's complaints, a line each; none when it did all of it.
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

std::string jobs_table(const std::vector<JobRecord>& jobs, std::time_t now, std::size_t columns) {
  if (jobs.empty()) return {};
  std::vector<TableRow> rows = {
      {"JOB", "NAME", "STATE", "NODES", "ELAPSED", "LEFT", "START", "RUNS"}};
  for (const auto& job : jobs)
    rows.push_back(
        {cut(escape(job.id), kLongestId), cut(escape(job.name), kLongestName),
         cut(state_text(job.state, job.reason), kLongestReason),
         job.hosts.empty() ? std::to_string(job.nodes) : cut(escape(job.hosts), kLongestName),
         elapsed_text(job), left_text(job), start_text(job, now), escape(what_it_runs(job))});
  std::string text;
  for (const auto& line : table_lines(rows))
    text += (columns == 0 ? line : cut(line, columns)) + "\n";
  return text;
}

std::string jobs_json(const std::vector<JobRecord>& jobs) {
  Json all = Json::array();
  for (const auto& job : jobs) all.push_back(job_json(job));
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<int> run_jobs(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool json = false;
  bool all = false;
  HVD_TRY(const auto operands,
          take_flags("hvdrun jobs", args, {{"--help", &help}, {"--json", &json}, {"--all", &all}}));
  if (help) return print_text(kJobsHelp);
  if (!operands.empty())
    return fail("hvdrun jobs lists all of yours; to see one: hvdrun follow " + operands.front(),
                kExitUsage);
  auto command = squeue_command();
  command.emplace_back("--me");
  if (all) command.emplace_back("--states=all");
  HVD_TRY(const auto end, run_slurm({std::move(command), query_environment(environment), {}}));
  if (end.code != 0) return fail("SLURM did not list the jobs: squeue: " + complaint(end));
  const auto jobs = parse_jobs(end.out);
  if (json) return print_text(jobs_json(jobs));
  if (jobs.empty()) say_note("you have no jobs in the queue");
  return print_text(jobs_table(jobs, std::time(nullptr), terminal_columns()));
}

CancelPlan plan_cancel(const std::vector<JobId>& ids, const std::vector<JobRecord>& jobs,
                       uid_t user) {
  CancelPlan plan;
  for (const auto& id : ids) {
    const auto found = find(id, jobs);
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
  HVD_TRY(const auto operands, take_flags("hvdrun cancel", args, {{"--help", &help}}));
  if (help) return print_text(kCancelHelp);
  if (operands.empty())
    return fail("hvdrun cancel needs the numbers of jobs; hvdrun jobs lists yours", kExitUsage);
  std::vector<JobId> ids;
  for (const auto& operand : operands) {
    HVD_TRY(JobId id, parse_job_id(operand));
    ids.push_back(std::move(id));
  }
  const auto environment_block = query_environment(environment);
  HVD_TRY(const auto jobs, look_up(ids, environment_block));
  const auto plan = plan_cancel(ids, jobs, ::geteuid());
  for (const auto& line : plan.refusals) say_note(line);
  for (const auto& line : plan.notes) say_note(line);
  if (!plan.to_cancel.empty()) {
    std::vector<std::string> command = {"scancel"};
    command.insert(command.end(), plan.to_cancel.begin(), plan.to_cancel.end());
    HVD_TRY(const auto end, run_slurm({std::move(command), environment_block, {}}));
    const auto lines = complaints(end);
    for (const auto& line : lines) say_note("scancel: " + line);
    if (!lines.empty()) return kExitLauncher;
  }
  return plan.refusals.empty() ? kExitOk : kExitUsage;
}

}  // namespace hvdrun
