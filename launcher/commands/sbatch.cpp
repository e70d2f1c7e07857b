#include "commands/sbatch.hpp"

#include "base/quote.hpp"
#include "batch/batch_script.hpp"
#include "batch/batch_shape.hpp"
#include "cli/batch_command_line.hpp"
#include "cli/settings.hpp"
#include "commands/hvdrun_name.hpp"
#include "commands/submit.hpp"
#include "commands/words.hpp"
#include "slurm/script/template_folders.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::string_view kUsage =
    "hvdrun sbatch -np N program … (hvdrun sbatch --help says more)";

std::string template_for(const BatchSpec& batch) {
  if (!batch.template_name.empty()) return batch.template_name;
  if (!batch.container.empty()) return "container";
  return batch.requeue ? "requeue" : "generic";
}

// What the template sets, as settings.
std::vector<DefaultSetting> defaults_of(const ScriptTemplate& script) {
  std::vector<DefaultSetting> defaults;
  for (const auto& option : script.options)
    defaults.push_back(
        {option.name, option.value, fmt::format("{}:{}", script.file, option.line)});
  return defaults;
}

BatchCommand command_of(const BatchInvocation& invocation, const BatchShape& shape,
                        const Environment& environment) {
  BatchCommand command;
  command.hvdrun = {hvdrun_name(environment), "-np", std::to_string(shape.ranks)};
  if (invocation.batch.requeue) {
    const int tries = invocation.job.max_restarts;
    command.hvdrun.insert(command.hvdrun.end(),
                          {"--max-requeues", std::to_string(tries > 0 ? tries : kDefaultRequeues)});
  }
  command.hvdrun.insert(command.hvdrun.end(), invocation.hvdrun_options.begin(),
                        invocation.hvdrun_options.end());
  command.program = invocation.command;
  return command;
}

// The job's name, where none is given, is the program's.
void name_job(BatchSpec& batch, const std::vector<std::string>& program) {
  for (const auto& option : batch.slurm_options)
    if (option.name == "job-name") return;
  batch.slurm_options.push_back({"job-name", job_name_of(program)});
}

Result<void> write_script(const std::filesystem::path& file, const std::string& script) {
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(file.c_str(), "we"), std::fclose);
  const auto cannot = "cannot write the script to " + file.string();
  if (!stream) return fail_errno(cannot, errno);
  if (std::fwrite(script.data(), 1, script.size(), stream.get()) != script.size() ||
      std::fflush(stream.get()) != 0)
    return fail_errno(cannot, errno);
  return {};
}

}  // namespace

Result<int> run_sbatch(const std::vector<std::string>& args, const Environment& environment) {
  std::optional<ScriptTemplate> script;
  const auto find_defaults =
      [&](const BatchSpec& batch) -> Result<std::vector<DefaultSetting>> {
    HVD_TRY(script, load_template(template_for(batch), template_folders(batch.template_folders,
                                                                        environment,
                                                                        own_template_folder())));
    return defaults_of(*script);
  };
  HVD_TRY(auto invocation, parse_batch_command_line("sbatch", args, environment, find_defaults));
  for (const auto& line : invocation.notes) say_note(line);
  if (invocation.action != BatchInvocation::Action::run) return print_text(invocation.text);
  HVD_CHECK(cli::check_command(invocation.command, std::string(kUsage)));
  auto& batch = invocation.batch;
  name_job(batch, invocation.command);
  HVD_TRY(const auto shape, batch_shape(invocation.job, batch));
  HVD_TRY(const auto text, batch_script(*script, batch, shape,
                                        command_of(invocation, shape, environment)));
  say_note(describe(shape));
  if (!batch.script_file.empty()) {
    HVD_CHECK(write_script(batch.script_file, text));
    say_note("wrote " + quote_if_needed(batch.script_file.string()));
  }
  if (batch.test_only || batch.submit || batch.wait || batch.follow)
    return submit_script(text, batch, environment);
  return batch.script_file.empty() ? print_text(text) : kExitOk;
}

}  // namespace hvdrun
