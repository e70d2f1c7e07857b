#include "slurm/stop_time.hpp"

#include "slurm/job_record.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kUsualKillWait{30};  // slurm.conf(5)
// hvdrun's own time between the end of the ranks and SLURM's SIGKILL.
constexpr seconds kForTheReport{2};
// A job that ends later than this was not warned of its end: someone wants it to stop.
constexpr seconds kLongestWarning{600};
constexpr milliseconds kPatience{1000};

std::optional<std::string> ask(std::vector<std::string> command, const Environment& environment) {
  ProgramRequest request;
  request.command = std::move(command);
  request.environment = query_environment(environment);
  request.timeout = kPatience;
  const auto end = run_slurm(std::move(request));
  if (!end || end->code != 0) return {};
  return end->out;
}

std::optional<seconds> time_left(const std::string& job, const Environment& environment) {
  auto command = squeue_command();
  command.push_back("--jobs=" + job);
  const auto text = ask(std::move(command), environment);
  const auto jobs = text ? parse_jobs(*text) : std::vector<JobRecord>{};
  if (jobs.empty() || jobs.front().state != "RUNNING") return {};
  return jobs.front().left;
}

}  // namespace

std::optional<seconds> kill_wait_in(std::string_view config) {
  constexpr std::string_view kName = "KillWait";
  while (!config.empty()) {
    const auto end = std::min(config.find('\n'), config.size());
    auto line = config.substr(0, end);
    config.remove_prefix(std::min(end + 1, config.size()));
    if (!line.starts_with(kName)) continue;
    line.remove_prefix(std::min(line.find_first_not_of(" =", kName.size()), line.size()));
    int number = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), number).ec == std::errc() &&
        number >= 0)
      return seconds(number);
  }
  return {};
}

milliseconds stop_time(std::optional<seconds> kill_wait, std::optional<seconds> left) {
  const milliseconds wait = kill_wait.value_or(kUsualKillWait);
  const auto after = std::max<milliseconds>(wait - kForTheReport, wait / 2);
  return left && *left <= kLongestWarning ? *left + after : after;
}

std::optional<milliseconds> time_after_sigterm(const Environment& environment) {
  const auto* job = find_variable(environment, "SLURM_JOB_ID");
  if (job == nullptr || job->empty()) return {};
  const auto begun = std::chrono::steady_clock::now();
  const auto config = ask({"scontrol", "show", "config"}, environment);
  const auto wait = config ? kill_wait_in(*config) : std::nullopt;
  const auto time = stop_time(wait, time_left(*job, environment));
  const auto taken =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
  return std::max(time - taken, milliseconds(0));
}

}  // namespace hvdrun
