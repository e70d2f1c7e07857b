#include "remote/srun_command.hpp"

#include "remote/remote_agent.hpp"
#include "remote/srun_agent.hpp"
#include "remote/sweep.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// How srun finds its cluster and proves who we are. All else that begins so is an option of a step
// (srun reads dozens) or describes the caller's own step.
constexpr std::array<std::string_view, 8> kKept{
    "SLURM_CONF",     "SLURM_CONF_SERVER", "SLURM_JOB_ID",          "SLURM_JWT",
    "SLURM_SACK_KEY", "SLURM_SACK_JWKS",   "SLURM_WORKING_CLUSTER", "SLURM_STEPMGR"};
constexpr std::array<std::string_view, 6> kDropped{"SLURM_", "SLURMD_", "SRUN_",
                                                   "PMI_",   "PMIX_",   "OMPI_COMM_WORLD_"};

bool travels(std::string_view name) {
  if (std::find(kKept.begin(), kKept.end(), name) != kKept.end()) return true;
  return std::none_of(kDropped.begin(), kDropped.end(),
                      [name](auto prefix) { return name.substr(0, prefix.size()) == prefix; });
}

// SLURM (22.05) refuses --gres to a step on one host alone that has more GPUs than the job's hosts
// have on average; --gpus, which counts over the whole step, it grants. Over several hosts it is
// --gpus that goes wrong: it is not spread evenly.
std::string gpu_option(int gpus_per_host, std::size_t hosts) {
  if (gpus_per_host == 0) return "--gres=none";
  return (hosts == 1 ? "--gpus=" : "--gres=gpu:") + std::to_string(gpus_per_host);
}

// A step with one task on each of exactly these hosts; its program is to follow.
std::vector<std::string> step_words(const SrunOptions& options,
                                    const std::vector<std::string>& hosts) {
  const auto count = std::to_string(hosts.size());
  return {
      options.program, "--jobid=" + options.job_id,
      "--job-name=hvdrun",  // of the step, for squeue -s
      "--nodelist=" + fmt::format("{}", fmt::join(hosts, ",")), "--nodes=" + count,
      "--ntasks=" + count, "--ntasks-per-node=1",
      // Beside whatever steps there are: without it a step inside a step waits for ever. Not
      // --exact, nor -c, which implies it: without them the step has all cores that the job has on
      // each host, however uneven those are.
      "--overlap",
      "--mem=0",  // all that the job has
      "--cpu-bind=none", "--mpi=none",
      // One agent's end is no reason to end the others, neither now nor after a while.
      "--kill-on-bad-exit=0", "--wait=0",
      "--chdir=/",  // there is one everywhere; the agent goes where the job wants it
      "--export=ALL",
      "--label",  // so that what an agent says can be told from what its neighbour says
  };
}

}  // namespace

std::vector<std::string> srun_command(const SrunOptions& options,
                                      const std::vector<std::string>& hosts,
                                      std::optional<int> gpus_per_host) {
  auto words = step_words(options, hosts);
  if (gpus_per_host) words.push_back(gpu_option(*gpus_per_host, hosts.size()));
  words.push_back(options.agent_path);
  words.emplace_back(kAgentArgument);
  words.emplace_back(kSrunArgument);
  return words;
}

std::vector<std::string> srun_sweep_command(const SrunOptions& options,
                                            const std::vector<std::string>& hosts,
                                            const std::string& job_id,
                                            const std::vector<std::size_t>& agents) {
  auto words = step_words(options, hosts);
  words.emplace_back("--gres=none");
  words.push_back(options.agent_path);
  for (auto& word : sweep_words(job_id, agents)) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> srun_environment(const Environment& caller) {
  std::vector<std::string> block;
  for (const auto& [name, value] : caller)
    if (travels(name)) block.push_back(name + "=" + value);
  return block;
}

}  // namespace hvdrun
