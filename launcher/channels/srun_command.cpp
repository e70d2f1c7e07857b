#include "channels/srun_command.hpp"

#include "remote/remote_agent.hpp"
#include "remote/srun_agent.hpp"

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the option that gives a step its GPUs. SLURM 22.05 refuses --gres to a step on a single
// host that has more GPUs than the job's hosts have on average. It grants --gpus, which is the
// number of the whole step. Over several hosts --gpus fails: SLURM does not spread it evenly.
std::string gpu_option(int gpus_per_host, std::size_t hosts) {
  if (gpus_per_host == 0) return "--gres=none";
  return (hosts == 1 ? "--gpus=" : "--gres=gpu:") + std::to_string(gpus_per_host);
}

// Returns the argv of a step with one task on each of exactly these hosts, without its program.
std::vector<std::string> step_words(const SrunOptions& options,
                                    const std::vector<std::string>& hosts) {
  const auto count = std::to_string(hosts.size());
  return {
      options.program, "--jobid=" + options.job_id,
      "--job-name=hvdrun",  // of the step, for squeue -s
      "--nodelist=" + fmt::format("{}", fmt::join(hosts, ",")), "--nodes=" + count,
      "--ntasks=" + count, "--ntasks-per-node=1",
      // Runs beside other steps: without it a step inside a step waits for ever. --exact is
      // missing, and so is -c, which implies it. Without them the step has all cores of the job on
      // each host, also if their numbers differ.
      "--overlap",
      "--mem=0",  // all of the job's memory
      "--cpu-bind=none", "--mpi=none",
      // The end of one agent does not end the others, neither at once nor later.
      "--kill-on-bad-exit=0", "--wait=0",
      "--chdir=/",  // every host has it; the agent enters the job's working directory
      "--export=ALL",
      "--label",  // marks each line with its task
  };
}

// Returns the argv of hvdrun on a host.
std::vector<std::string> agent_words(const SrunOptions& options,
                                     const std::vector<std::string>& arguments) {
  if (options.sent) return start_command(*options.sent, options.agent_path, arguments);
  std::vector<std::string> words{options.agent_path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

std::vector<std::string> srun_command(const SrunOptions& options,
                                      const std::vector<std::string>& hosts,
                                      std::optional<int> gpus_per_host) {
  auto words = step_words(options, hosts);
  if (gpus_per_host) words.push_back(gpu_option(*gpus_per_host, hosts.size()));
  if (options.survives_hosts) words.emplace_back("--no-kill");
  append(words, agent_words(options, {std::string(kAgentArgument), std::string(kSrunArgument)}));
  return words;
}

std::vector<std::string> srun_step_command(const SrunOptions& options,
                                           const std::vector<std::string>& hosts,
                                           const std::vector<std::string>& command) {
  auto words = step_words(options, hosts);
  words.emplace_back("--gres=none");
  append(words, command);
  return words;
}

std::vector<std::string> srun_cleanup_command(const SrunOptions& options,
                                              const std::vector<std::string>& hosts,
                                              const std::string& job_id,
                                              const std::vector<std::size_t>& agents) {
  return srun_step_command(options, hosts, agent_words(options, cleanup_arguments(job_id, agents)));
}

}  // namespace hvdrun
