#include "cli/command_line.hpp"

#include "cli/config_file.hpp"
#include "cli/explain.hpp"
#include "cli/help.hpp"
#include "cli/horovod_module.hpp"
#include "cli/program.hpp"
#include "cli/setting.hpp"
#include "cli/settings.hpp"
#include "cli/words.hpp"

#include <iterator>
#include <system_error>
#include <utility>

namespace hvdrun {
namespace {

Invocation plain_action(std::string_view name) {
  Invocation invocation;
  if (name == "help") {
    invocation.action = Invocation::Action::help;
    invocation.text = cli::help_text();
  } else if (name == "version") {
    invocation.action = Invocation::Action::version;
    invocation.text = cli::version_text();
  } else {
    invocation.action = Invocation::Action::check_build;
  }
  return invocation;
}

// What is accepted but does nothing, or not what one might think.
void add_notes(const JobSpec& job, const Environment& environment,
               std::vector<std::string>& notes) {
  if (job.json && !job.dry_run) notes.push_back("--json has no effect without --dry-run");
  for (const auto& change : job.environment)
    if (!change.value && find_variable(environment, change.name) == nullptr)
      notes.push_back("-x " + change.name + " has no effect: it is not set in your environment");
}

std::string explain_program(const std::vector<std::string>& command, const Environment& environment,
                            const Surroundings& surroundings) {
  if (command.empty()) return {};
  const auto found =
      cli::find_program(command.front(), environment, surroundings.working_directory);
  return found ? found->string() : found.error().message;
}

}  // namespace

std::filesystem::path Surroundings::current_directory() {
  std::error_code error;
  return std::filesystem::current_path(error);
}

Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const Surroundings& surroundings) {
  HVD_TRY(auto words, cli::split_words(args));
  const bool explains = words.action != nullptr && words.action->name == "explain";
  if (words.action != nullptr && !explains) return plain_action(words.action->name);

  HVD_TRY(auto gathered,
          cli::gather_settings(words.options, environment, surroundings.site_config_file));
  Invocation invocation;
  auto& spec = invocation.spec;
  HVD_CHECK(cli::apply_settings(gathered.settings, spec));
  invocation.notes = std::move(words.notes);
  std::move(gathered.notes.begin(), gathered.notes.end(), std::back_inserter(invocation.notes));
  add_notes(spec, environment, invocation.notes);
  if (explains) {
    invocation.action = Invocation::Action::explain;
    invocation.text = cli::explain_text(
        {cli::run_options(), std::move(gathered.sources), std::move(gathered.settings),
         words.command, explain_program(words.command, environment, surroundings)});
    return invocation;
  }
  HVD_CHECK(cli::check_command(words.command, "hvdrun -np N program … (hvdrun --help says more)"));
  spec.working_directory = surroundings.working_directory;
  if (spec.working_directory.empty())
    return fail("the current directory does not exist any more; cd to another", kExitUsage);
  HVD_TRY(spec.program,
          cli::find_program(words.command.front(), environment, surroundings.working_directory));
  spec.command = std::move(words.command);
  if (spec.horovod) {
    HVD_TRY(auto folders, cli::find_horovod_module());
    spec.horovod_folder = std::move(folders.horovod);
    spec.hvd_folder = std::move(folders.hvd);
  }
  return invocation;
}

}  // namespace hvdrun
