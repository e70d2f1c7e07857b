#include "report/report_text.hpp"

#include "base/event_loop.hpp"
#include "base/severity.hpp"
#include "common/text.hpp"
#include "model/traceback.hpp"
#include "report/activities.hpp"
#include "report/failures.hpp"
#include "report/first_failure.hpp"
#include "report/host_table.hpp"
#include "report/progress_text.hpp"
#include "report/quantities.hpp"
#include "report/stragglers.hpp"
#include "report/throttling.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostWaits = 4;
// Seconds. A shorter job has not trained, and its ranks' connections were hardly looked at.
constexpr double kLeastTraining = 5;

const RankReport& culprit_of(const Report& report) {
  return report.ranks[static_cast<std::size_t>(*report.first_failure)];
}

std::string describe_culprit(const RankReport& rank) {
  const auto& device = rank.placement.device_name;
  return fmt::format("rank {} on {} failed: {} (pid {}{}{}, after {})", rank.placement.rank,
                     rank.host, describe_end(rank), rank.pid, device.empty() ? "" : ", ", device,
                     format_duration(rank.seconds));
}

std::span<const AttemptReport> attempts_before_last(const Report& report) {
  const std::span attempts(report.attempts);
  return attempts.empty() ? attempts : attempts.first(attempts.size() - 1);
}

// Returns "2.60 s", or "2.60 s with 1 restart".
std::string how_long(const Report& report) {
  const auto restarts = attempts_before_last(report).size();
  auto text = format_duration(report.wall_seconds);
  if (restarts > 0) text += fmt::format(" with {} restart{}", restarts, restarts == 1 ? "" : "s");
  return text;
}

void add_earlier(const Report& report, std::vector<std::string>& lines) {
  int restart = 0;
  for (const auto& attempt : attempts_before_last(report)) {
    const auto which = restart == 0 ? "first start" : fmt::format("restart {}", restart);
    lines.push_back(fmt::format("  {}: {}", which, attempt.reason));
    ++restart;
  }
}

void append(std::vector<std::string> more, std::vector<std::string>& lines) {
  std::move(more.begin(), more.end(), std::back_inserter(lines));
}

// Adds the first failure. What it printed comes last, because the cause is at the end of it.
void add_culprit(const Report& report, std::vector<std::string>& lines) {
  const auto& rank = culprit_of(report);
  const auto& failure = rank.failure.text;
  const bool is_shown = shows_cause(rank);
  const std::string_view lines_name =
      rank.has_terminal ? "its last lines" : "its last lines on stderr";
  lines.push_back(error_text(describe_culprit(rank) +
                             (is_shown ? fmt::format("; {} are above", lines_name) : "")));
  if (!rank.in_collective.empty())
    lines.push_back(fmt::format("  it was in {}", rank.in_collective));
  if (!is_shown && !failure.empty()) {
    append(failure_lines(rank), lines);
  } else if (!is_shown && !rank.last_stderr.empty()) {
    lines.push_back(fmt::format("  {}:", lines_name));
    for (const auto& line : cause_lines(rank.last_stderr)) lines.push_back("  | " + line);
  }
  if (!rank.last_error.empty() && failure.find(rank.last_error) == std::string::npos)
    lines.push_back(fmt::format("  its last error of hvd: {}", rank.last_error));
}

// Adds the other ranks: those that failed too, folded by what they reported or how they ended, and
// "ranks 0-1,3 stopped by hvdrun".
void add_others(const Report& report, std::vector<std::string>& lines) {
  append(other_failures(report), lines);
  std::vector<int> stopped;
  std::vector<int> killed;
  std::vector<int> unknown;
  std::vector<int> never_started;
  std::vector<std::pair<std::string, std::vector<int>>> by_end;
  for (const auto& rank : report.ranks) {
    const int number = rank.placement.rank;
    if (report.first_failure == number || has_failure_to_show(report, rank)) continue;
    if (rank.pid == 0) {
      never_started.push_back(number);
    } else if (rank.stopped_by_us && !rank.exited) {
      unknown.push_back(number);
    } else if (rank.stopped_by_us && (rank.signal != SIGKILL || rank.killed_by_us)) {
      (rank.signal == SIGKILL ? killed : stopped).push_back(number);
    } else {
      const auto end = describe_end(rank);
      auto at = std::find_if(by_end.begin(), by_end.end(),
                             [&](const auto& entry) { return entry.first == end; });
      if (at == by_end.end()) at = by_end.insert(at, {end, {}});
      at->second.push_back(number);
    }
  }
  const auto add = [&](const std::vector<int>& ranks, const std::string& what) {
    if (!ranks.empty()) lines.push_back(describe_ranks(ranks) + ": " + what);
  };
  for (const auto& [end, ranks] : by_end) add(ranks, end);
  add(stopped, "stopped by hvdrun");
  add(killed, "killed by hvdrun (SIGKILL); --grace TIME gives ranks more time to end");
  add(unknown, "lost with the agent of the host, which has not reported how they ended");
  add(never_started, "never started");
}

void add_progress(const Report& report, std::vector<std::string>& lines) {
  if (const auto progress = final_progress(report.ranks))
    lines.push_back(fmt::format("  training: {}", fmt::join(progress_fields(*progress), ", ")));
}

void add_hosts(const Report& report, std::vector<std::string>& lines) {
  add_progress(report, lines);
  for (auto& line : host_table(report)) lines.push_back(std::move(line));
  if (const auto stragglers = find_stragglers(report.ranks, report.waits))
    lines.push_back("  " + describe_stragglers(*stragglers, report.ranks));
  if (auto warning = throttle_warning(report.gpus)) lines.push_back(std::move(*warning));
}

// Adds the collectives that ranks waited in, unless a rank failed first, which says more.
void add_waits(const Report& report, std::vector<std::string>& lines) {
  if (report.first_failure) return;
  for (std::size_t i = 0; i < report.waits.size() && i < kMostWaits; ++i)
    lines.push_back(report.waits[i].text);
  if (report.waits.size() > kMostWaits)
    lines.push_back(fmt::format("and ranks had waited in {} (--report FILE has all)",
                                plural(report.waits.size() - kMostWaits, "other collective")));
}

// Adds what the ranks did when the job was interrupted, unless libhvd watched them.
void add_activities(const Report& report, std::vector<std::string>& lines) {
  const bool is_watched = std::any_of(report.ranks.begin(), report.ranks.end(),
                                      [](const RankReport& rank) { return rank.counters.joined; });
  if (report.first_failure || is_watched || !report.waits.empty()) return;
  append(activity_lines(report), lines);
}

struct Cost {
  double cpu_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
};

Cost cost_of_ranks(const Report& report) {
  Cost cost;
  for (const auto& rank : report.ranks) {
    cost.cpu_seconds += rank.user_seconds + rank.system_seconds;
    cost.peak_memory_bytes = std::max(cost.peak_memory_bytes, rank.peak_memory_bytes);
  }
  return cost;
}

std::string cost(const Report& report) {
  auto [cpu, memory] = cost_of_ranks(report);
  for (const auto& attempt : attempts_before_last(report)) {
    cpu += attempt.cpu_seconds;
    memory = std::max(memory, attempt.peak_memory_bytes);
  }
  return fmt::format("CPU {}, peak memory of a rank {}", format_duration(cpu),
                     format_bytes(memory));
}

std::string_view advice_on_separate_runs(const Report& report) {
  if (report.rank_drove_all_gpus)
    return "a rank used all GPUs of its host by itself, so start it with --ranks-per-host 1";
  if (report.uses_mpich)
    return "a rank uses MPICH, which finds no other ranks under hvdrun: type MPICH's `mpiexec -n` "
           "(Debian's mpiexec.mpich) instead of `hvdrun -np`";
  if (report.lacks_pmix)
    return "a rank uses Open MPI, whose ranks find each other by PMIx, and this job has none "
           "(--pmix)";
  if (report.lacks_tf_config)
    return "the ranks had no TF_CONFIG, which TensorFlow's MultiWorkerMirroredStrategy reads: "
           "--for tensorflow sets it";
  return "see FRAMEWORKS in hvdrun(1)";
}

void add_leftovers(const Report& report, std::vector<std::string>& lines) {
  for (const auto& leftover : report.leftovers)
    lines.push_back(error_text("could not be ended and is left: " + leftover));
}

std::vector<std::string> lines_of_success(const Report& report) {
  const auto lost = std::ranges::count_if(report.ranks, &RankReport::continued_without);
  const auto unused = std::ranges::count_if(report.ranks, &RankReport::never_joined);
  std::vector<std::string> lines{
      fmt::format("{} {} {} ({}){}", plural(std::ssize(report.ranks) - lost - unused, "rank"),
                  report.stopped_early ? "stopped early, as requested, after" : "succeeded in",
                  how_long(report), cost(report),
                  lost == 0 ? "" : fmt::format("; {} lost before", plural(lost, "rank")))};
  append(other_failures(report), lines);
  add_earlier(report, lines);
  add_hosts(report, lines);
  const bool cannot_join = report.uses_mpich || report.lacks_pmix;
  if (report.may_be_separate_runs && (report.wall_seconds >= kLeastTraining || cannot_join))
    lines.push_back(separate_runs_warning(report, SeparateRunsAt::end));
  add_leftovers(report, lines);
  return lines;
}

std::vector<std::string> lines_of_failure(const Report& report) {
  std::vector<std::string> lines;
  add_others(report, lines);
  add_waits(report, lines);
  add_activities(report, lines);
  add_hosts(report, lines);
  add_leftovers(report, lines);
  if (!report.not_restarted.empty()) lines.push_back("not started again: " + report.not_restarted);
  const auto end = fmt::format("job stopped after {}{}{}; exit code {}", how_long(report),
                               report.reason.empty() ? "" : ": ", report.reason, report.exit_code);
  lines.push_back(report.first_failure ? end : error_text(end));
  add_earlier(report, lines);
  if (report.first_failure) add_culprit(report, lines);
  return lines;
}

}  // namespace

std::string describe_end(const RankReport& rank) {
  if (rank.abort_code) {
    auto text = fmt::format("called MPI_Abort or PMIx_Abort with code {}", *rank.abort_code);
    if (!rank.abort_message.empty()) text += ": " + rank.abort_message;
    return text;
  }
  if (rank.stopped_by_us && failed_by_itself(rank))
    return "reported an error before hvdrun stopped it";
  const auto memory = std::string_view(
      rank.dev_shm_is_full     ? ", /dev/shm is full (in a container: --shm-size)"
      : !rank.out_of_memory    ? ""
      : rank.signal == SIGKILL ? ", out of memory (the kernel's OOM killer)"
                               : "; out of memory: the kernel's OOM killer killed a process there");
  if (rank.signal != 0)
    return fmt::format("killed by {}{}{}", signal_name(rank.signal),
                       rank.core_dumped ? ", core dumped" : "", memory);
  return fmt::format("exit code {}{}{}", rank.exit_code,
                     rank.lost_connection ? " without finalize (MPI_Finalize, PMIx_Finalize)" : "",
                     memory);
}

std::string separate_runs_warning(const Report& report, SeparateRunsAt when) {
  const bool they_run = when == SeparateRunsAt::present;
  return warning_text(fmt::format(
      "no rank was seen to join another one{} (by hvd.init, MPI_Init, torch.distributed or "
      "any TCP connection): {} {} separate runs of the program; {}",
      they_run ? " yet" : "", they_run ? "so far these may be" : "these may have been",
      report.ranks.size(), advice_on_separate_runs(report)));
}

std::vector<std::string> report_lines(const Report& report) {
  const bool has_succeeded = report.exit_code == 0 || report.stopped_early;
  return has_succeeded ? lines_of_success(report) : lines_of_failure(report);
}

AttemptReport in_short(const Report& report) {
  AttemptReport attempt;
  attempt.exit_code = report.exit_code;
  attempt.reason = report.reason;
  if (report.first_failure) {
    attempt.first_failure = culprit_of(report);
    attempt.reason = describe_culprit(*attempt.first_failure);
  } else if (report.exit_code != 0 && report.reason.empty()) {
    attempt.reason = "no rank was found to blame";
  }
  if (attempt.first_failure) attempt.failures = failure_lines(*attempt.first_failure);
  append(other_failures(report), attempt.failures);
  if (auto warning = throttle_warning(report.gpus)) attempt.failures.push_back(std::move(*warning));
  attempt.wall_seconds = report.wall_seconds;
  const auto cost = cost_of_ranks(report);
  attempt.cpu_seconds = cost.cpu_seconds;
  attempt.peak_memory_bytes = cost.peak_memory_bytes;
  for (const auto& rank : report.ranks)
    attempt.peak_gpu_memory_bytes =
        std::max(attempt.peak_gpu_memory_bytes, rank.peak_gpu_memory_bytes);
  return attempt;
}

}  // namespace hvdrun
