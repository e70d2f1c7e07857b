#include "slurm/job_record.hpp"

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/text.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

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

namespace {

// SLURM's own limit for job ids is 26 bits (MaxJobId); of array tasks, 4,000,001 (MaxArraySize).
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

struct TaskRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t step = 1;
};

// "4", "4-9", "4-9:2"
std::optional<TaskRange> take_range(std::string_view& text) {
  const auto first = take_number(text);
  if (!first) return std::nullopt;
  TaskRange range{*first, *first};
  if (take(text, '-')) {
    const auto last = take_number(text);
    if (!last || *last < *first) return std::nullopt;
    range.last = *last;
    if (take(text, ':')) {
      const auto step = take_number(text);
      if (!step || *step == 0) return std::nullopt;
      range.step = *step;
    }
  }
  return range;
}

// What stands in the brackets of "12_[…]". None: it is no list. `count` gets the number of tasks.
bool is_task_list(std::string_view text, std::uint32_t& count) {
  count = 0;
  do {
    const auto range = take_range(text);
    if (!range) return false;
    count += (range->last - range->first) / range->step + 1;
  } while (take(text, ','));
  if (take(text, '%')) return take_number(text) && text.empty();
  return text.empty();
}

constexpr std::int64_t kLongest = std::int64_t{100} * 366 * 86400;  // a century

std::optional<std::int64_t> take_duration_part(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0 || number > kLongest) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::tm local(std::time_t moment) {
  std::tm parts{};
  ::localtime_r(&moment, &parts);
  return parts;
}

// What nobody types: a field ends with the one, a record with the other and squeue's newline.
constexpr char kFieldEnd = '\x1f';
constexpr char kRecordEnd = '\x1e';

// What slurmctld gives a running job where neither it nor its partition has a limit: a year.
constexpr std::chrono::seconds kNoLimit{365 * 86400};

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What squeue prints for a text that is not set.
std::string text(std::string_view field) {
  return field == "(null)" || field == "N/A" || field == "n/a" ? std::string() : std::string(field);
}

struct Field {
  std::string_view name;  // squeue's, for --Format
  void (*take)(JobRecord&, std::string_view);
};

// Those that a user can put anything into come last: whatever they hold, the others are read.
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

// Cuts the text up to `end` off; all of it where there is none.
std::string_view cut(std::string_view& from, char end) {
  const auto at = from.find(end);
  const auto piece = from.substr(0, at);
  from.remove_prefix(at == std::string_view::npos ? from.size() : at + 1);
  return piece;
}

JobRecord parse_job(std::string_view line) {
  JobRecord job;
  for (const auto& field : kFields) field.take(job, cut(line, kFieldEnd));
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

using Word = std::string_view;

// squeue(1), JOB STATE CODES, of SLURM 20.11 to 24.11.
constexpr std::array<Word, 6> kPending = {"PENDING",      "REQUEUED",     "REQUEUE_FED",
                                          "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
constexpr std::array<Word, 10> kEnded = {"BOOT_FAIL", "CANCELLED", "COMPLETED",     "DEADLINE",
                                         "FAILED",    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
                                         "REVOKED",   "TIMEOUT"};

// squeue(1), JOB REASON CODES; the words are ours.
constexpr std::pair<Word, Word> kReasons[] = {
    {"Resources", "waits for hosts to become free"},
    {"Priority", "others come first"},
    {"Dependency", "waits for another job to end"},
    {"DependencyNeverSatisfied",
     "the job that it depends on did not end as it should: never starts"},
    {"BeginTime", "SLURM starts it at a set time, not before"},
    {"JobHeldUser", "held; scontrol release lets it go"},
    {"JobHeldAdmin", "held by an administrator"},
    {"JobArrayTaskLimit", "as many tasks of the array run as may at once"},
    {"Licenses", "waits for a licence"},
    {"Reservation", "waits for its reservation"},
    {"PartitionDown", "the partition is down"},
    {"PartitionInactive", "the partition starts no jobs"},
    {"PartitionNodeLimit", "asks for more hosts than the partition gives"},
    {"PartitionTimeLimit", "asks for more time than the partition gives"},
    {"ReqNodeNotAvail", "a host that it asks for is not available"},
    {"BadConstraints", "no host offers what it asks for"},
};

template <class Words>
bool has(const Words& words, Word word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What is not the program's doing: the words, and hvdrun's code where the job has none.
struct OuterEnd {
  std::string_view state;
  int exit_code;
  bool signal_counts;  // the job's signal decides where there is one
  std::string_view words;
};

constexpr OuterEnd kOuterEnds[] = {
    {"CANCELLED", kExitSignalBase + SIGTERM, true, "was cancelled"},
    {"TIMEOUT", kExitTimeout, false, "reached its time limit and was ended"},
    {"DEADLINE", kExitTimeout, false, "reached its deadline and was ended"},
    {"PREEMPTED", kExitSignalBase + SIGTERM, true, "had to make room for another job"},
    {"NODE_FAIL", kExitLauncher, false, "was ended because one of its hosts failed"},
    {"BOOT_FAIL", kExitLauncher, false, "was ended because one of its hosts did not boot"},
    {"OUT_OF_MEMORY", kExitSignalBase + SIGKILL, false,
     "was killed because its memory was used up"},
    {"REVOKED", kExitLauncher, false, "was moved to another cluster"},
};

const OuterEnd* outer_end(std::string_view state) {
  for (const auto& end : kOuterEnds)
    if (end.state == state) return &end;
  return nullptr;
}

// slurmstepd's "signal" for a batch script whose output file it could not open.
constexpr int kNoOutputFile = 53;

// Signals that there are: for "out of memory" SLURM has 125.
bool is_signal(int number) {
  return number > 0 && number < NSIG && number != kNoOutputFile;
}

}  // namespace

Result<JobId> parse_job_id(std::string_view text) {
  const auto wrong = [text] {
    return fail(
        quote(text) + " is no job id; one is a number: 1234, or 1234_5 for a task of an array",
        kExitUsage);
  };
  JobId id{std::string(text)};
  const auto number = take_number(text);
  if (!number || *number == 0) {
    text = id.text;
    return wrong();
  }
  id.number = *number;
  bool fits = text.empty();
  if (take(text, '+')) {
    id.kind = JobId::Kind::het_part;
    fits = take_number(text) && text.empty();
  } else if (text.size() > 3 && text.starts_with("_[") && text.ends_with(']')) {
    id.kind = JobId::Kind::array_tasks;
    std::uint32_t count = 0;
    fits = is_task_list(text.substr(2, text.size() - 3), count);
  } else if (take(text, '_')) {
    id.kind = JobId::Kind::array_task;
    fits = take_number(text) && text.empty();
  }
  text = id.text;
  if (!fits) return wrong();
  return id;
}

bool belongs_to(std::string_view listed, std::uint32_t number) {
  const auto own = take_number(listed);
  return own == number && (listed.empty() || listed.front() == '_' || listed.front() == '+');
}

std::uint32_t count_tasks(std::string_view listed) {
  const auto open = listed.find("_[");
  if (open == std::string_view::npos) return 1;
  std::uint32_t count = 0;
  if (!listed.ends_with(']') || listed.size() < open + 4) return 0;
  return is_task_list(listed.substr(open + 2, listed.size() - open - 3), count) ? count : 0;
}

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  std::int64_t days = 0;
  std::int64_t rest = 0;
  int fields = 0;
  while (true) {
    const auto number = take_duration_part(text);
    if (!number) return std::nullopt;
    if (!text.empty() && text.front() == '-' && fields == 0 && days == 0) {
      days = *number;
    } else {
      rest = rest * 60 + *number;
      if (++fields > 3 || rest > kLongest) return std::nullopt;
    }
    if (text.empty()) break;
    if (text.front() != (fields == 0 ? '-' : ':')) return std::nullopt;
    text.remove_prefix(1);
  }
  if (fields < 2) return std::nullopt;
  return std::chrono::seconds(days * 86400 + rest);
}

std::optional<std::time_t> parse_moment(std::string_view text) {
  const auto number = take_duration_part(text);
  if (!number || *number == 0 || !text.empty()) return std::nullopt;
  return static_cast<std::time_t>(*number);
}

std::string duration_text(std::chrono::seconds duration) {
  const auto all = duration.count() < 0 ? 0 : duration.count();
  const auto days = all / 86400;
  const auto hours = all / 3600 % 24;
  const auto minutes = all / 60 % 60;
  const auto seconds = all % 60;
  if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, seconds);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds);
  return fmt::format("{}:{:02}", minutes, seconds);
}

std::string moment_text(std::time_t moment, std::time_t now) {
  const std::tm then = local(moment);
  const std::tm today = local(now);
  const bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
  auto clock = fmt::format("{:02}:{:02}:{:02}", then.tm_hour, then.tm_min, then.tm_sec);
  if (same_day) return clock;
  return fmt::format("{}-{:02}-{:02} {}", then.tm_year + 1900, then.tm_mon + 1, then.tm_mday,
                     clock);
}

std::vector<std::string> squeue_command() {
  std::string format;
  for (const auto& field : kFields) {
    format += field.name;
    format += ":0";  // as wide as it is
    format += &field == std::end(kFields) - 1 ? kRecordEnd : kFieldEnd;
    format += ',';
  }
  format.pop_back();
  return {"squeue", "--noheader", "--all", "--Format=" + format};
}

std::vector<JobRecord> parse_jobs(std::string_view text) {
  std::vector<JobRecord> jobs;
  while (!text.empty()) {
    auto line = cut(text, kRecordEnd);
    // Before the id: the last record's newline, and "CLUSTER: …" with SLURM_CLUSTERS.
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

JobPhase phase_of(std::string_view state) {
  if (has(kPending, state)) return JobPhase::pending;
  return has(kEnded, state) ? JobPhase::ended : JobPhase::running;
}

std::string_view explain_reason(std::string_view reason) {
  reason = reason.substr(0, reason.find_first_of(", "));  // "ReqNodeNotAvail, UnavailableNodes:n1"
  for (const auto& [name, words] : kReasons)
    if (name == reason) return words;
  return {};
}

std::string state_text(std::string_view state, std::string_view reason) {
  std::string text = escape(state);
  for (char& c : text)
    c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (phase_of(state) == JobPhase::pending && !reason.empty() && reason != "None")
    text += " (" + escape(reason) + ")";
  return text;
}

JobEnd end_of(const JobRecord& job) {
  const bool has_run = !job.hosts.empty() || !job.batch_host.empty();
  return {job.id, job.state, job.exit, has_run ? job.elapsed : std::nullopt};
}

int exit_code_of(const JobEnd& end) {
  const int signal = end.exit ? end.exit->signal : 0;
  if (const auto* outer = outer_end(end.state); outer != nullptr)
    return outer->signal_counts && is_signal(signal) ? kExitSignalBase + signal : outer->exit_code;
  if (end.state == "COMPLETED") return kExitOk;
  if (is_signal(signal)) return kExitSignalBase + signal;
  // A batch script that did not even start has failed with 0.
  return end.exit && end.exit->code > 0 && end.exit->code < 256 ? end.exit->code : kExitLauncher;
}

std::string end_text(const JobEnd& end) {
  const std::string after = end.elapsed ? " after " + duration_text(*end.elapsed) : "";
  if (end.state.empty())
    return "has ended; SLURM no longer knows how (neither squeue nor sacct remembers it)";
  if (const auto* outer = outer_end(end.state); outer != nullptr)
    return std::string(outer->words) + after;
  if (end.state == "COMPLETED") return "succeeded" + after;
  if (end.exit && is_signal(end.exit->signal))
    return "was ended by " + signal_name(end.exit->signal) + after;
  if (end.exit && end.exit->signal == kNoOutputFile)
    return "failed before it began" + after +
           ": SLURM could not open its output file on the host (does the folder exist there?)";
  if (end.exit && end.exit->code != 0)
    return "failed with exit code " + std::to_string(end.exit->code) + after;
  return "failed" + after + "; SLURM calls it " + escape(end.state) +
         " and knows no exit code: its script may not have started";
}

std::vector<std::string> sacct_command(std::string_view id) {
  return {"sacct",
          "--jobs=" + std::string(id),
          "--allocations",
          "--noheader",
          "--parsable2",
          "--delimiter=|",
          "--format=JobID,State,ExitCode,Elapsed"};
}

std::vector<JobEnd> parse_accounting(std::string_view text) {
  std::vector<JobEnd> ends;
  while (!text.empty()) {
    auto line = cut(text, '\n');
    JobEnd end;
    end.id = cut(line, '|');
    auto state = cut(line, '|');
    end.state = cut(state, ' ');  // "CANCELLED by 1000"
    end.exit = parse_exit_status(cut(line, '|'));
    end.elapsed = parse_duration(cut(line, '|'));
    if (parse_job_id(end.id) && phase_of(end.state) == JobPhase::ended)
      ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace hvdrun
