#include "slurm/job_end.hpp"

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/text.hpp"
#include "slurm/fields.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_state.hpp"
#include "slurm/times.hpp"

#include <csignal>
#include <utility>

namespace hvdrun {
namespace {

// An end that the program did not cause: its text, and hvdrun's exit code.
struct OuterEnd {
  std::string_view state;
  int exit_code;
  bool signal_applies;  // 128 + the job's signal replaces exit_code, if there is a signal
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

// The "signal" that slurmstepd reports for a batch script whose output file it could not open.
constexpr int kNoOutputFile = 53;

// Returns whether there is such a signal. SLURM also uses other numbers: 125 for "out of memory".
bool is_signal(int number) {
  return number > 0 && number < NSIG && number != kNoOutputFile;
}

}  // namespace

JobEnd end_of(const JobRecord& job) {
  const bool has_run = !job.hosts.empty() || !job.batch_host.empty();
  return {job.id, job.state, job.exit, has_run ? job.elapsed : std::nullopt};
}

int exit_code_of(const JobEnd& end) {
  const int signal = end.exit ? end.exit->signal : 0;
  if (const auto* outer = outer_end(end.state); outer != nullptr)
    return outer->signal_applies && is_signal(signal) ? kExitSignalBase + signal : outer->exit_code;
  if (end.state == "COMPLETED") return kExitOk;
  if (is_signal(signal)) return kExitSignalBase + signal;
  // A batch script that did not start has failed with exit code 0.
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
    auto line = take_field(text, '\n');
    JobEnd end;
    end.id = take_field(line, '|');
    auto state = take_field(line, '|');
    end.state = take_field(state, ' ');  // "CANCELLED by 1000"
    end.exit = parse_exit_status(take_field(line, '|'));
    end.elapsed = parse_duration(take_field(line, '|'));
    if (parse_job_id(end.id) && phase_of(end.state) == JobPhase::ended)
      ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace hvdrun
