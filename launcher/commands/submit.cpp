#include "commands/submit.hpp"

#include "base/subprocess.hpp"
#include "commands/follow.hpp"
#include "commands/job_output.hpp"
#include "commands/subcommand.hpp"
#include "output/own_line.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"
#include "slurm/slurm_command.hpp"

#include <csignal>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Beginnings of slurm_strerror(3)'s texts, and what helps.
constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
    {"Invalid partition", "`sinfo -s` lists the partitions; --partition NAME"},
    {"Invalid account or account/partition",
     "--account NAME: one that may use the partition; `sacctmgr show associations user=$USER` "
     "lists yours"},
    {"Invalid account", "--account NAME: one of yours"},
    {"Invalid qos", "--qos NAME: one of yours"},
    {"Requested time limit is invalid", "a shorter --time; `sinfo` shows the partitions' limits"},
    {"Requested node configuration is not available",
     "no node of the partition has so many GPUs, CPUs or so much memory: `sinfo -o '%P %G %c %m'` "
     "shows what they have; --gpus-per-node, --cpus-per-rank, --mem, --partition"},
    {"Node count specification invalid", "fewer --nodes: the partition does not have so many"},
    {"Requested partition configuration not available",
     "the partition may be down, or too small: `sinfo -s`"},
    {"More processors requested than permitted", "fewer ranks, or --cpus-per-rank"},
    {"CPU count per node can not be satisfied", "fewer ranks per node, or --cpus-per-rank"},
    {"Memory specification can not be satisfied",
     "less --mem: `sinfo -o '%P %m'` shows the nodes'"},
    {"Invalid generic resource",
     "the partition has no such GPUs: `sinfo -o '%P %G'` shows what it has; --gpus-per-node"},
    {"Job dependency problem", "--dependency TYPE:JOB, of a job that SLURM still knows"},
    {"Job violates accounting/QOS policy",
     "the limits of your account or QOS; `sacctmgr show qos` lists them"},
    {kNoConfiguration, kNoCluster},
    {"Unable to contact slurm controller", "SLURM's controller does not answer; try again later"},
};

// Returns our environment for the job, without the variables of a job that we are in.
std::vector<std::string> environment_for_job(const Environment& environment) {
  Environment kept;
  for (const auto& [name, value] : environment)
    if (!name.starts_with("SLURM_") || name == "SLURM_CONF" || name == "SLURM_CLUSTERS")
      kept.emplace(name, value);
  return environment_block(kept);
}

// Returns the sbatch command for the script. It repeats the script's directives as options, because
// only options override SBATCH_ variables.
ProgramRequest sbatch_request(const BatchScript& script, const Environment& environment,
                              const std::string& option) {
  ProgramRequest request;
  request.command = {"sbatch", option};
  request.command.insert(request.command.end(), script.directives.begin(), script.directives.end());
  request.environment = environment_for_job(environment);
  request.input = script.text;
  return request;
}

Result<ProgramEnd> call_sbatch(ProgramRequest request) {
  auto end = run_slurm(std::move(request));
  if (!end && is_not_installed(end.error()))
    return fail(end.error().message + "; without --submit hvdrun sbatch prints the script",
                end.error().exit_code);
  return end;
}

Error refused(const ProgramEnd& end) {
  const auto words = complaint(end);
  if (end.timed_out || words.find("timed out") != std::string::npos)
    return {"SLURM did not answer in time (" + words +
                "); the job may be in the queue all the same: hvdrun jobs",
            kExitLauncher};
  const auto advice = advice_on(words);
  return {"sbatch refuses: " + words + (advice.empty() ? "" : "; " + advice), kExitUsage};
}

// Marks the files that the job will write as they are before it is submitted, because the job may
// write to them before SLURM is first asked about it. The job's number is not known yet, but no
// other job writes files with that number in their names.
JobOutput output_before(const BatchScript& script) {
  JobRecord job;
  job.state = "PENDING";
  job.is_batch = true;
  const std::pair<std::string_view, std::string*> fields[] = {{"--output=", &job.std_out},
                                                              {"--error=", &job.std_err},
                                                              {"--chdir=", &job.work_dir},
                                                              {"--job-name=", &job.name}};
  for (const auto& directive : script.directives)
    for (const auto& [option, field] : fields)
      if (directive.starts_with(option)) *field = directive.substr(option.size());
  std::error_code ignored;
  const auto here = std::filesystem::current_path(ignored);
  job.work_dir = job.work_dir.empty() ? here : here / job.work_dir;
  JobOutput output;
  output.take(job);
  return output;
}

Result<int> test_script(const BatchScript& script, const Environment& environment) {
  HVD_TRY(const auto end, call_sbatch(sbatch_request(script, environment, "--test-only")));
  if (end.code != 0) return refused(end);
  // sbatch prints on stderr:
  // "sbatch: Job 12 to start at 2026-01-01T00:00:00 using 4 processors on nodes n1 in partition p"
  std::string words = complaint(end);
  if (const auto to_start = words.find(" to start at "); to_start != std::string::npos)
    words = "the job could start at " + words.substr(to_start + 13);
  print_own_line(words + "; nothing is submitted");
  return kExitOk;
}

}  // namespace

std::string advice_on(const std::string& refusal) {
  for (const auto& [words, advice] : kAdvice)
    if (refusal.find(words) != std::string::npos) return std::string(advice);
  return {};
}

Result<int> submit_script(const BatchScript& script, const BatchSpec& batch,
                          const Environment& environment) {
  std::signal(SIGPIPE, SIG_IGN);  // sbatch may end before it has read the whole script
  if (batch.test_only) return test_script(script, environment);
  std::optional<JobOutput> output;
  if (batch.follow) output = output_before(script);
  HVD_TRY(const auto end, call_sbatch(sbatch_request(script, environment, "--parsable")));
  if (end.code != 0) return refused(end);
  if (!end.err.empty()) print_own_line(complaint(end));  // messages of a site's plugin
  // The output is "12" or "12;cluster" (sbatch(1), --parsable).
  const auto text = end.out.substr(0, end.out.find_first_of(";\n"));
  HVD_TRY(const auto id, parse_job_id(text));
  if (!batch.wait && !batch.follow) {
    print_own_line(fmt::format(
        "submitted job {}; hvdrun follow {} shows it, hvdrun cancel {} ends it", text, text, text));
    return print_text(text + "\n");
  }
  print_own_line("submitted job " + text);
  return follow_job(id, std::move(output), environment);
}

}  // namespace hvdrun
