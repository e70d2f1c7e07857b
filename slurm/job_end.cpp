#include "slurm/job_end.hpp"

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "slurm/job_record.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <utility>

namespace hvdrun {
namespace {

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

}  // namespace

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

namespace {

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

std::string_view cut(std::string_view& from, char end) {
  const auto at = from.find(end);
  const auto piece = from.substr(0, at);
  from.remove_prefix(at == std::string_view::npos ? from.size() : at + 1);
  return piece;
}

}  // namespace

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
