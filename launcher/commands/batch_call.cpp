#include "commands/batch_call.hpp"

#include "base/counted.hpp"
#include "batch/job_comment.hpp"
#include "commands/hvdrun_name.hpp"
#include "commands/words.hpp"
#include "slurm/script/template_folders.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hvdrun {

Result<ScriptTemplate> find_template(const std::string& name, const BatchSpec& batch,
                                     const Environment& environment) {
  return load_template(
      name, template_folders(batch.template_folders, environment, own_template_folder()));
}

std::vector<DefaultSetting> defaults_of(const ScriptTemplate& script) {
  std::vector<DefaultSetting> defaults;
  for (const auto& option : script.options)
    defaults.push_back({option.name, option.value, fmt::format("{}:{}", script.file, option.line)});
  return defaults;
}

namespace {

// Whether an option of sbatch's own asks for GPUs.
bool asks_for_gpus(const BatchSpec& batch) {
  return std::any_of(batch.sbatch_arguments.begin(), batch.sbatch_arguments.end(),
                     [](const auto& argument) {
                       return argument.starts_with("--gpus") || argument.starts_with("--gres") ||
                              argument.starts_with("-G");
                     });
}

}  // namespace

std::optional<NodeOffer> ask_for_nodes(BatchSpec& batch, const Environment& environment) {
  const bool needs_gpus = !batch.gpus_per_node;
  const bool needs_cpus = !batch.cpus_per_node && batch.gpus_per_node.value_or(1) > 0;
  const auto partition =
      std::find_if(batch.slurm_options.begin(), batch.slurm_options.end(),
                   [](const auto& option) { return option.name == "partition"; });
  auto offer = ask_node_offer(
      partition == batch.slurm_options.end() ? std::string() : partition->value, environment);
  if (!offer && needs_gpus && !asks_for_gpus(batch))
    say_note(
        "no GPUs are asked for, since what a node has is not known here; --gpus-per-node K asks "
        "for them (0: ranks without GPUs)");
  if (!offer || offer->gpus == 0 || (!needs_gpus && !needs_cpus)) return offer;
  if (needs_gpus) batch.gpus_per_node = offer->gpus;
  if (needs_cpus) batch.cpus_per_node = offer->cpus;
  say_note(
      fmt::format("a node of partition {} has {} and {} (--gpus-per-node 0: ranks without GPUs)",
                  offer->partition, counted(offer->gpus, "GPU"), counted(offer->cpus, "CPU")));
  return offer;
}

Result<void> check_nodes(const BatchShape& shape, const std::optional<NodeOffer>& offer) {
  if (!offer || shape.nodes.value_or(0) <= offer->nodes) return {};
  return fail(fmt::format("{} on {}, and partition {} has {}: SLURM would let the job wait for "
                          "ever; fewer ranks, or another --partition",
                          counted(shape.ranks, "rank"), counted(*shape.nodes, "node"),
                          offer->partition, offer->nodes),
              kExitUsage);
}

void complete_request(BatchSpec& batch, const std::vector<std::string>& program) {
  const bool is_named = std::any_of(batch.slurm_options.begin(), batch.slurm_options.end(),
                                    [](const auto& option) { return option.name == "job-name"; });
  if (!is_named) batch.slurm_options.push_back({"job-name", job_name_of(program), true});
  const bool has_signal = std::any_of(batch.slurm_options.begin(), batch.slurm_options.end(),
                                      [](const auto& option) { return option.name == "signal"; });
  if (batch.requeue && !has_signal) batch.slurm_options.push_back({"signal", kRequeueSignal});
  const bool has_comment =
      std::any_of(batch.sbatch_arguments.begin(), batch.sbatch_arguments.end(),
                  [](const auto& argument) { return argument.starts_with("--comment"); });
  if (!has_comment) batch.comment = job_comment(program);
}

BatchCommand inner_command(const BatchInvocation& invocation, const BatchShape& shape,
                           const Environment& environment) {
  BatchCommand command;
  command.hvdrun = {hvdrun_name(environment), "-np", std::to_string(shape.ranks)};
  if (invocation.batch.requeue) {
    const auto& job = invocation.job;
    const int times = job.max_requeues > 0   ? job.max_requeues
                      : job.max_restarts > 0 ? job.max_restarts
                                             : kDefaultRequeues;
    command.hvdrun.insert(command.hvdrun.end(), {"--max-requeues", std::to_string(times)});
    // A config file may have it, and the hvdrun there reads that, too.
    if (job.max_restarts > 0) command.hvdrun.insert(command.hvdrun.end(), {"--max-restarts", "0"});
  }
  command.hvdrun.insert(command.hvdrun.end(), invocation.hvdrun_options.begin(),
                        invocation.hvdrun_options.end());
  command.program = invocation.command;
  return command;
}

}  // namespace hvdrun
