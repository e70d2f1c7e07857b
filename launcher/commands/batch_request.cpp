#include "commands/batch_request.hpp"

#include "base/severity.hpp"
#include "commands/job_name.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "output/own_line.hpp"
#include "slurm/quoting.hpp"
#include "slurm/slurm_command.hpp"
#include "slurm/template_folders.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

// Returns the name of an output file with sbatch's own word for the index in the place of each
// {index}.
std::string with_index_pattern(std::string name) {
  for (auto at = name.find(kIndexPlace); at != std::string::npos; at = name.find(kIndexPlace, at))
    name.replace(at, kIndexPlace.size(), "%a");
  return name;
}

// Returns whether one of the user's arguments for sbatch requests GPUs.
bool asks_for_gpus(const BatchSpec& batch) {
  return std::any_of(batch.sbatch_arguments.begin(), batch.sbatch_arguments.end(),
                     [](const auto& argument) {
                       return argument.starts_with("--gpus") || argument.starts_with("--gres") ||
                              argument.starts_with("-G");
                     });
}

// Returns a text if sinfo lists none of these partitions. It may leave out one that is hidden.
std::string doubt_about_partition(const std::string& names, const std::vector<PartitionInfo>& all) {
  std::set<std::string> known;
  for (const auto& info : all) known.insert(info.partition);
  const auto asked = split_list(names);
  if (std::any_of(asked.begin(), asked.end(),
                  [&](const auto& name) { return known.contains(name); }))
    return {};
  return fmt::format("--partition {}: there is no such partition; SLURM's sinfo lists {}",
                     quote_if_needed(names), fmt::join(known, ", "));
}

// Returns whether sbatch gives each task of an array a file of its own: the name has %a, %j or %J,
// or one of those with a width, %4a.
bool differs_by_task(std::string_view name) {
  for (std::size_t at = name.find('%'); at < name.size(); at = name.find('%', at)) {
    at = name.find_first_not_of("0123456789", at + 1);
    if (at >= name.size()) return false;
    if (std::string_view("ajJ").find(name[at]) != std::string_view::npos) return true;
    ++at;  // also after "%%", which is one "%"
  }
  return false;
}

// Returns a warning if all tasks of an array write their output to one file.
std::vector<std::string> shared_output_warnings(const BatchSpec& batch) {
  std::vector<std::string> warnings;
  const auto& options = batch.slurm_options;
  if (std::none_of(options.begin(), options.end(),
                   [](const auto& option) { return option.name == "array"; }))
    return warnings;
  for (const auto& [name, value, is_own_idea] : options) {
    if (name != "output" && name != "error") continue;
    if (value == "/dev/null" || differs_by_task(value)) continue;
    warnings.push_back(warning_text(fmt::format(
        "--{} {}: all tasks of the array write to this file; {{index}} or %a in its name "
        "gives each its own",
        name, quote_for_shell(value))));
  }
  return warnings;
}

}  // namespace

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

std::filesystem::path folder_of_job(const BatchSpec& batch) {
  std::error_code error;
  auto folder = std::filesystem::current_path(error);
  for (const auto& option : batch.slurm_options)
    if (option.name == "chdir") folder /= option.value;
  return folder;
}

Offer ask_for_nodes(BatchSpec& batch, const Environment& environment) {
  const bool needs_gpus = !batch.gpus_per_node;
  const bool needs_cpus = !batch.cpus_per_node && batch.gpus_per_node.value_or(1) > 0;
  const auto named = std::find_if(batch.slurm_options.begin(), batch.slurm_options.end(),
                                  [](const auto& option) { return option.name == "partition"; });
  const auto partition = named == batch.slurm_options.end() ? std::string() : named->value;
  const auto all = query_partitions(query_environment(environment));
  Offer offer;
  offer.each_node = find_partition(all, partition);
  offer.largest = largest_node(all, partition);
  if (!all.empty() && !partition.empty()) offer.doubt = doubt_about_partition(partition, all);
  offer.is_known = !all.empty();
  const auto& each = offer.each_node;
  if (!each && needs_gpus && !asks_for_gpus(batch))
    print_own_line(warning_text(
        "no GPUs are requested, because it is not known here what a node has; --gpus-per-node K "
        "requests them (0: ranks without GPUs)"));
  if (!each || each->gpus == 0 || (!needs_gpus && !needs_cpus)) return offer;
  if (needs_gpus) batch.gpus_per_node = each->gpus;
  if (needs_cpus) {
    batch.cpus_per_node = each->cpus;
    batch.gpus_beside_cpus = each->gpus;
  }
  print_own_line(
      fmt::format("a node of partition {} has {} and {} (--gpus-per-node 0: ranks without GPUs)",
                  each->partition, plural(each->gpus, "GPU"), plural(each->cpus, "CPU")));
  return offer;
}

Result<BatchShape> shape_of_request(const JobSpec& job, const BatchSpec& batch,
                                    const Offer& offer) {
  auto shape = batch_shape(job, batch);
  if (shape && !offer.doubt.empty()) print_own_line(warning_text(offer.doubt));
  if (shape || (offer.is_known && offer.doubt.empty())) return shape;
  return fail(shape.error().message + "; " +
                  (offer.is_known ? offer.doubt : "SLURM's sinfo does not answer here"),
              shape.error().exit_code);
}

Result<void> check_array_files(const JobSpec& job, const BatchSpec& batch) {
  const auto array = std::find_if(batch.slurm_options.begin(), batch.slurm_options.end(),
                                  [](const auto& option) { return option.name == "array"; });
  const bool has_several = array != batch.slurm_options.end() &&
                           array->value.find_first_not_of("0123456789") != std::string::npos;
  if (!has_several) return {};
  const std::pair<std::string_view, const std::filesystem::path&> files[] = {
      {"--output-filename", job.output.directory},
      {"--report", job.report_file},
      {"--metrics", job.metrics.file},
      {"--timeline-filename", job.timeline_file},
      {"--autotune-log-file", job.collectives.autotune_log},
  };
  for (const auto& [option, file] : files) {
    const auto name = file.string();
    if (name.empty() || name.find(kIndexPlace) != std::string::npos) continue;
    const auto suggested = option == "--output-filename"
                               ? (file / kIndexPlace).string()
                               : (file.parent_path() / file.stem()).string() + "-" +
                                     std::string(kIndexPlace) + file.extension().string();
    return fail(
        fmt::format(
            "{0} {1}: the tasks of an array would overwrite each other's; {0} {2} gives each "
            "its own",
            option, quote_for_shell(name), quote_for_shell(suggested)),
        kExitUsage);
  }
  return {};
}

std::vector<std::string> request_warnings(const BatchShape& shape, const JobSpec& job,
                                          const BatchSpec& batch, const Offer& offer) {
  std::vector<std::string> warnings;
  const auto compare = [&](int requested, int has, const char* what, const char* remedy) {
    if (requested > has)
      warnings.push_back(warning_text(fmt::format(
          "the job requests {} on each node, and a node of partition {} has {} (sinfo): it may "
          "never start; {}",
          plural(requested, what), offer.largest->partition, has, remedy)));
  };
  if (offer.largest) {
    compare(shape.gpus_per_node, offer.largest->gpus, "GPU",
            "fewer --gpus-per-node, or another --partition");
    if (const int given = batch.gpus_per_node.value_or(0);
        given > offer.largest->gpus && shape.gpus_per_node <= offer.largest->gpus)
      warnings.push_back(warning_text(
          fmt::format("--gpus-per-node {}: a node of partition {} has {} (sinfo)", given,
                      offer.largest->partition, plural(offer.largest->gpus, "GPU"))));
    compare(shape.ranks_per_node.value_or(1) * shape.cpus_per_rank, offer.largest->cpus, "CPU",
            "fewer --cpus-per-rank or --cpus-per-node, or another --partition");
  }
  if (shape.gpus_per_node > 0 && !job.cpus_per_rank && !batch.cpus_per_node)
    warnings.push_back(
        warning_text("each rank gets 1 CPU, because it is not known here how many a node has; "
                     "--cpus-per-node K or --cpus-per-rank K requests more"));
  for (auto& line : shared_output_warnings(batch)) warnings.push_back(std::move(line));
  return warnings;
}

Result<void> check_nodes(const BatchShape& shape, const Offer& offer) {
  const auto& each = offer.each_node;
  if (!each || shape.nodes.value_or(0) <= each->nodes) return {};
  return fail(fmt::format("{} on {}, and partition {} has {}: the job would wait forever; "
                          "use fewer ranks, or another --partition",
                          plural(shape.places, "rank"), plural(*shape.nodes, "node"),
                          each->partition, each->nodes),
              kExitUsage);
}

void complete_request(BatchSpec& batch, const std::vector<std::string>& program) {
  const auto has = [&](std::string_view name) {
    return std::any_of(batch.slurm_options.begin(), batch.slurm_options.end(),
                       [&](const auto& option) { return option.name == name; });
  };
  if (!has("job-name")) batch.slurm_options.push_back({"job-name", job_name_of(program), true});
  for (auto& [name, value, is_own_idea] : batch.slurm_options)
    if (has("array") && (name == "output" || name == "error")) value = with_index_pattern(value);
  if (batch.requeue && !has("signal")) batch.slurm_options.push_back({"signal", kRequeueSignal});
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
    // Overrides a config file with the option, which the hvdrun in the job reads, too.
    if (job.max_restarts > 0) command.hvdrun.insert(command.hvdrun.end(), {"--max-restarts", "0"});
  }
  command.hvdrun.insert(command.hvdrun.end(), invocation.hvdrun_options.begin(),
                        invocation.hvdrun_options.end());
  command.program = invocation.command;
  return command;
}

}  // namespace hvdrun
