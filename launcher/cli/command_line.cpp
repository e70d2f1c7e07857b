#include "cli/command_line.hpp"

#include "cli/config_file.hpp"
#include "cli/explain.hpp"
#include "cli/help.hpp"
#include "cli/program.hpp"
#include "cli/setting.hpp"
#include "cli/words.hpp"

#include <utility>

namespace hvdrun {
namespace {

using cli::ConfigSource;
using cli::OptionUse;
using cli::Setting;
using cli::ValueKind;

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

std::vector<std::string> config_files_named(const std::vector<OptionUse>& uses) {
  std::vector<std::string> files;
  for (const auto& use : uses)
    if (use.option->kind == ValueKind::config_file) files.push_back(use.value);
  return files;
}

// The command line's settings; --verbose --verbose is one setting of 2.
std::vector<Setting> settings_of(const std::vector<OptionUse>& uses) {
  std::vector<Setting> settings;
  const OptionUse* counted = nullptr;
  int count = 0;
  for (const auto& use : uses) {
    if (use.option->kind == ValueKind::count) {
      counted = &use;
      ++count;
    } else if (use.option->kind != ValueKind::config_file) {
      settings.push_back({use.option, use.value, "command line", use.spelling});
    }
  }
  if (counted != nullptr)
    settings.push_back({counted->option, std::to_string(count), "command line", counted->spelling});
  return settings;
}

// What is accepted but does nothing, or not what one might think.
void add_notes(const JobSpec& job, const Environment& environment,
               std::vector<std::string>& notes) {
  if (job.json && !job.dry_run) notes.push_back("--json has no effect without --dry-run");
  for (const auto& change : job.environment)
    if (!change.value && find_variable(environment, change.name) == nullptr)
      notes.push_back("-x " + change.name + " has no effect: it is not set in your environment");
}

Result<void> check_command(const std::vector<std::string>& command) {
  if (command.empty())
    return fail("no program given; usage: hvdrun -np N program … (hvdrun --help says more)",
                kExitUsage);
  for (const auto& word : command)
    if (word.find('\0') != std::string::npos)
      return fail("the program's arguments cannot hold a NUL character", kExitUsage);
  return {};
}

}  // namespace

Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const Surroundings& surroundings) {
  HVD_TRY(auto words, cli::split_words(args));
  const bool explains = words.action != nullptr && words.action->name == "explain";
  if (words.action != nullptr && !explains) return plain_action(words.action->name);

  Invocation invocation;
  invocation.notes = std::move(words.notes);
  auto sources = cli::config_sources(surroundings.site_config_file, environment,
                                     config_files_named(words.options));
  std::vector<Setting> settings;
  for (auto& source : sources) {
    HVD_TRY(auto config, cli::read_config_source(source));
    std::move(config.settings.begin(), config.settings.end(), std::back_inserter(settings));
    std::move(config.notes.begin(), config.notes.end(), std::back_inserter(invocation.notes));
  }
  for (auto& setting : settings_of(words.options)) settings.push_back(std::move(setting));
  HVD_CHECK(cli::apply_settings(settings, invocation.spec));
  add_notes(invocation.spec, environment, invocation.notes);

  if (!explains || !words.command.empty()) HVD_CHECK(check_command(words.command));
  invocation.spec.command = words.command;
  invocation.spec.working_directory = surroundings.working_directory;
  std::string program;
  if (!words.command.empty()) {
    auto found =
        cli::find_program(words.command.front(), environment, surroundings.working_directory);
    if (!found && !explains) return tl::unexpected(std::move(found).error());
    program = found ? found->string() : found.error().message;
    if (found) invocation.spec.program = std::move(*found);
  }
  if (explains) {
    invocation.action = Invocation::Action::explain;
    invocation.text = cli::explain_text({sources, settings, words.command, program});
  }
  return invocation;
}

}  // namespace hvdrun
