#include "slurm/job_record.hpp"

#include "slurm/fields.hpp"
#include "slurm/slurm_command.hpp"
#include "slurm/times.hpp"

#include <charconv>
#include <limits>
#include <utility>

#include <sys/wait.h>

namespace hvdrun {
namespace {

// Separators that no user types. A field ends with kFieldEnd, a record with kRecordEnd and squeue's
// newline.
constexpr char kFieldEnd = '\x1f';
constexpr char kRecordEnd = '\x1e';

// The limit that slurmctld reports for a running job if neither it nor its partition has one: a
// year.
constexpr std::chrono::seconds kNoLimit{365 * 86400};

// Reads a number. Returns nullopt if the text is anything else.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the text of a field; empty for what squeue prints for a text that is not set.
std::string text(std::string_view field) {
  return field == "(null)" || field == "N/A" || field == "n/a" ? std::string() : std::string(field);
}

struct Field {
  std::string_view name;  // for squeue's --Format
  void (*take)(JobRecord&, std::string_view);
};

// Fields with text that a user chooses are last, so that the others can be read whatever that text
// is.
constexpr Field kFields[] = {
    {"JobArrayID", [](JobRecord& job, std::string_view field) { job.id = field; }},
    {"JobID",
     [](JobRecord& job, std::string_view field) {
       job.number = number<std::uint32_t>(field).value_or(0);
     }},
    {"UserID",
     [](JobRecord& job, std::string_view field) {
       job.uid = number<std::uint32_t>(field).value_or(std::numeric_limits<std::uint32_t>::max());
     }},
    {"State", [](JobRecord& job, std::string_view field) { job.state = field; }},
    {"exit_code",
     [](JobRecord& job, std::string_view field) { job.exit = parse_exit_status(field); }},
    {"NumNodes",
     [](JobRecord& job, std::string_view field) { job.nodes = number<int>(field).value_or(0); }},
    {"TimeUsed",
     [](JobRecord& job, std::string_view field) { job.elapsed = parse_duration(field); }},
    {"TimeLeft", [](JobRecord& job, std::string_view field) { job.left = parse_duration(field); }},
    {"TimeLimit",
     [](JobRecord& job, std::string_view field) { job.limit = parse_duration(field); }},
    {"SubmitTime",
     [](JobRecord& job, std::string_view field) { job.submitted = parse_moment(field); }},
    {"StartTime", [](JobRecord& job, std::string_view field) { job.start = parse_moment(field); }},
    {"RestartCnt",
     [](JobRecord& job, std::string_view field) { job.restarts = number<int>(field).value_or(0); }},
    {"BatchFlag",
     [](JobRecord& job, std::string_view field) {
       job.is_batch = number<int>(field).value_or(0) != 0;
     }},
    {"Partition", [](JobRecord& job, std::string_view field) { job.partition = text(field); }},
    {"NodeList", [](JobRecord& job, std::string_view field) { job.hosts = text(field); }},
    {"BatchHost", [](JobRecord& job, std::string_view field) { job.batch_host = text(field); }},
    {"UserName", [](JobRecord& job, std::string_view field) { job.user = text(field); }},
    {"Reason", [](JobRecord& job, std::string_view field) { job.reason = text(field); }},
    {"WorkDir", [](JobRecord& job, std::string_view field) { job.work_dir = text(field); }},
    {"StdOut", [](JobRecord& job, std::string_view field) { job.std_out = text(field); }},
    {"StdErr", [](JobRecord& job, std::string_view field) { job.std_err = text(field); }},
    {"Command", [](JobRecord& job, std::string_view field) { job.command = text(field); }},
    {"Comment", [](JobRecord& job, std::string_view field) { job.comment = text(field); }},
    {"Name", [](JobRecord& job, std::string_view field) { job.name = text(field); }},
};

JobRecord parse_job(std::string_view line) {
  JobRecord job;
  for (const auto& field : kFields) field.take(job, take_field(line, kFieldEnd));
  if (job.limit && *job.limit >= kNoLimit) {
    job.limit.reset();
    job.left.reset();
  }
  return job;
}

bool is_job(const JobRecord& job) {
  return job.number != 0 && !job.state.empty() && !job.id.empty() && job.id.front() >= '0' &&
         job.id.front() <= '9';
}

}  // namespace

std::vector<std::string> squeue_command() {
  std::string format;
  for (const auto& field : kFields) {
    format += field.name;
    format += ":0";  // not padded or cut
    format += &field == std::end(kFields) - 1 ? kRecordEnd : kFieldEnd;
    format += ',';
  }
  format.pop_back();
  return {"squeue", "--noheader", "--all", "--Format=" + format};
}

std::vector<JobRecord> parse_jobs(std::string_view text) {
  std::vector<JobRecord> jobs;
  while (!text.empty()) {
    auto line = take_field(text, kRecordEnd);
    // Drops what is before the id: the previous record's newline, and "CLUSTER: …" if
    // SLURM_CLUSTERS is set.
    const auto first_field_end = line.find(kFieldEnd);
    if (const auto newline = line.substr(0, first_field_end).rfind('\n');
        newline != std::string_view::npos)
      line.remove_prefix(newline + 1);
    if (auto job = parse_job(line); is_job(job)) jobs.push_back(std::move(job));
  }
  return jobs;
}

std::optional<ExitStatus> parse_exit_status(std::string_view text) {
  const auto colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto code = number<int>(text.substr(0, colon));
    const auto signal = number<int>(text.substr(colon + 1));
    if (!code || !signal || *code < 0 || *signal < 0) return std::nullopt;
    return ExitStatus{*code, *signal};
  }
  const auto status = number<int>(text);
  if (!status || *status < 0) return std::nullopt;  // SLURM's "not set" is -2
  if (WIFSIGNALED(*status)) return ExitStatus{0, WTERMSIG(*status)};
  return ExitStatus{WEXITSTATUS(*status), 0};
}

std::string_view what_it_runs(const JobRecord& job) {
  const std::string_view comment = job.comment;
  if (comment.starts_with(kCommentPrefix) && comment.size() > kCommentPrefix.size())
    return comment.substr(kCommentPrefix.size());
  return job.command.empty() ? job.name : job.command;
}

std::vector<std::string> squeue_for(const JobId& id) {
  auto command = squeue_for_list(id.text);
  if (id.kind == JobId::Kind::array_task) command.emplace_back("--array");
  return command;
}

std::vector<std::string> squeue_for_list(const std::string& ids) {
  auto command = squeue_command();
  command.emplace_back("--states=all");
  command.push_back("--jobs=" + ids);
  return command;
}

QueueAnswer read_answer(const ProgramEnd& end) {
  using Kind = QueueAnswer::Kind;
  if (end.code == 0) {
    auto jobs = parse_jobs(end.out);
    const Kind kind = jobs.empty() ? Kind::no_such_job : Kind::jobs;
    return {kind, std::move(jobs), {}};
  }
  // The text of ESLURM_INVALID_JOB_ID (slurm_errno.c). It is the same from 20.11 to 24.11.
  if (!end.timed_out && end.err.find("Invalid job id") != std::string::npos)
    return {Kind::no_such_job, {}, {}};
  return {Kind::no_answer, {}, complaint(end)};
}

}  // namespace hvdrun
