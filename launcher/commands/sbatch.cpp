#include "commands/sbatch.hpp"

#include "cli/program.hpp"
#include "commands/batch_script.hpp"
#include "commands/follow.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"
#include "slurm/script_template.hpp"
#include "slurm/slurm_command.hpp"
#include "slurm/template_folders.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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

// Beginnings of what slurm_strerror(3) says, and what helps.
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
    {"CPU count per node can not be satisfied", "fewer ranks a node, or --cpus-per-rank"},
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

// What the job gets of our environment: not what describes a job that we are in.
std::vector<std::string> environment_for_job(const Environment& environment) {
  Environment kept;
  for (const auto& [name, value] : environment)
    if (!name.starts_with("SLURM_") || name == "SLURM_CONF" || name == "SLURM_CLUSTERS")
      kept.emplace(name, value);
  return environment_block(kept);
}

// The directives stand among sbatch's words, too: there they count more than SBATCH_ variables.
ProgramRequest sbatch(const BatchScript& script, const Environment& environment,
                      const std::string& option) {
  ProgramRequest request;
  request.command = {"sbatch", option};
  request.command.insert(request.command.end(), script.directives.begin(), script.directives.end());
  request.environment = environment_for_job(environment);
  request.input = script.text;
  return request;
}

Result<ProgramEnd> run_sbatch(ProgramRequest request) {
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

// What stands now in the files that the job will write. It may have begun to write them when SLURM
// is first asked how it stands. Names with the job's number in them are nobody else's.
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
  HVD_TRY(const auto end, run_sbatch(sbatch(script, environment, "--test-only")));
  if (end.code != 0) return refused(end);
  // "sbatch: Job 12 to start at 2026-01-01T00:00:00 using 4 processors on nodes n1 in partition p"
  std::string words = complaint(end);
  if (const auto to_start = words.find(" to start at "); to_start != std::string::npos)
    words = "the job could start at " + words.substr(to_start + 13);
  say_note(words + "; nothing is submitted");
  return kExitOk;
}

constexpr auto kUsage = "hvdrun sbatch -np N program … (hvdrun sbatch --help says more)";

std::string template_for(const BatchSpec& batch) {
  if (!batch.template_name.empty()) return batch.template_name;
  if (!batch.container.empty()) return "container";
  return batch.requeue ? "requeue" : "generic";
}

// A program that is named by its path and is not there: it may be on the nodes all the same.
void note_missing_program(const BatchSpec& batch, const std::string& program) {
  if (!batch.container.empty() || program.find('/') == std::string::npos) return;
  std::filesystem::path path = program;
  for (const auto& option : batch.slurm_options)
    if (option.name == "chdir") path = std::filesystem::path(option.value) / path;
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    say_note(quote_if_needed(path.string()) +
             " is not on this host; the job fails unless the nodes have it");
}

Result<void> write_script(const std::filesystem::path& file, const std::string& script) {
  const auto cannot = "cannot write the script to " + file.string();
  FILE* const stream = std::fopen(file.c_str(), "we");
  if (stream == nullptr) return fail_errno(cannot, errno);
  const bool is_written = std::fwrite(script.data(), 1, script.size(), stream) == script.size();
  const int error = errno;
  // What is buffered is written here, and a full disk shows here.
  if (std::fclose(stream) != 0) return fail_errno(cannot, errno);
  return is_written ? Result<void>() : fail_errno(cannot, error);
}

}  // namespace

std::optional<PartitionInfo> ask_for_nodes(BatchSpec& batch, const Environment& environment) {
  const bool needs_gpus = !batch.gpus_per_node;
  const bool needs_cpus = !batch.cpus_per_node && batch.gpus_per_node.value_or(1) > 0;
  const auto partition =
      std::find_if(batch.slurm_options.begin(), batch.slurm_options.end(),
                   [](const auto& option) { return option.name == "partition"; });
  auto offer = query_partitions(
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
                  offer->partition, plural(offer->gpus, "GPU"), plural(offer->cpus, "CPU")));
  return offer;
}

Result<void> check_nodes(const BatchShape& shape, const std::optional<PartitionInfo>& offer) {
  if (!offer || shape.nodes.value_or(0) <= offer->nodes) return {};
  return fail(fmt::format("{} on {}, and partition {} has {}: SLURM would let the job wait for "
                          "ever; fewer ranks, or another --partition",
                          plural(shape.ranks, "rank"), plural(*shape.nodes, "node"),
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

std::string advice_on(const std::string& refusal) {
  for (const auto& [words, advice] : kAdvice)
    if (refusal.find(words) != std::string::npos) return std::string(advice);
  return {};
}

Result<int> submit_script(const BatchScript& script, const BatchSpec& batch,
                          const Environment& environment) {
  std::signal(SIGPIPE, SIG_IGN);  // of an sbatch that ends before it has read the script
  if (batch.test_only) return test_script(script, environment);
  std::optional<JobOutput> output;
  if (batch.follow) output = output_before(script);
  HVD_TRY(const auto end, run_sbatch(sbatch(script, environment, "--parsable")));
  if (end.code != 0) return refused(end);
  if (!end.err.empty()) say_note(complaint(end));  // a site's plugin has something to say
  // "12" or "12;cluster" (sbatch(1), --parsable).
  const auto text = end.out.substr(0, end.out.find_first_of(";\n"));
  HVD_TRY(const auto id, parse_job_id(text));
  if (!batch.wait && !batch.follow) {
    say_note(fmt::format("submitted job {}; hvdrun follow {} shows it, hvdrun cancel {} ends it",
                         text, text, text));
    return print_text(text + "\n");
  }
  say_note("submitted job " + text);
  return follow_job(id, std::move(output), environment);
}

Result<int> run_sbatch(const std::vector<std::string>& args, const Environment& environment) {
  std::optional<ScriptTemplate> script;
  const auto find_defaults = [&](const BatchSpec& batch) -> Result<std::vector<DefaultSetting>> {
    HVD_TRY(script, find_template(template_for(batch), batch, environment));
    return defaults_of(*script);
  };
  HVD_TRY(auto invocation, parse_batch_command_line("sbatch", args, environment, find_defaults));
  for (const auto& line : invocation.notes) say_note(line);
  if (invocation.action != BatchInvocation::Action::run) return print_text(invocation.text);
  HVD_CHECK(cli::check_command(invocation.command, kUsage));
  auto& batch = invocation.batch;
  note_missing_program(batch, invocation.command.front());
  complete_request(batch, invocation.command);
  const auto offer = ask_for_nodes(batch, environment);
  HVD_TRY(const auto shape, batch_shape(invocation.job, batch));
  HVD_CHECK(check_nodes(shape, offer));
  HVD_TRY(const auto made,
          batch_script(*script, batch, shape, inner_command(invocation, shape, environment)));
  say_note(describe(shape));
  const bool to_stdout = batch.script_file.empty() || batch.script_file == "-";
  if (!to_stdout) {
    HVD_CHECK(write_script(batch.script_file, made.text));
    say_note("wrote " + quote_if_needed(batch.script_file.string()));
  }
  if (batch.test_only || batch.submit || batch.wait || batch.follow)
    return submit_script(made, batch, environment);
  return to_stdout ? print_text(made.text) : kExitOk;
}

}  // namespace hvdrun
