#include "cli/command_line.hpp"

#include "cli/config_file.hpp"
#include "cli/explain.hpp"
#include "cli/help.hpp"
#include "cli/program.hpp"
#include "cli/setting.hpp"
#include "cli/words.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <system_error>
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

// Of one place's settings -H counts and not --hostfile, in whichever order they stand; a later
// place overrides both.
std::vector<Setting> hosts_last(std::vector<Setting> settings, std::vector<std::string>& notes) {
  const auto named = [](std::string_view name) {
    return [name](const Setting& setting) { return setting.option->name == name; };
  };
  const auto hosts =
      std::stable_partition(settings.begin(), settings.end(), std::not_fn(named("hosts")));
  const auto file = std::find_if(settings.begin(), hosts, named("hostfile"));
  if (file != hosts && hosts != settings.end())
    notes.push_back(file->named + " has no effect: " + hosts->named + " names the hosts");
  return settings;
}

struct Gathered {
  std::vector<ConfigSource> sources;
  std::vector<Setting> settings;  // in the order in which they apply
  std::vector<std::string> notes;
};

Result<Gathered> gather_settings(const std::vector<OptionUse>& uses, const Environment& environment,
                                 const Surroundings& surroundings) {
  Gathered gathered;
  gathered.sources =
      cli::config_sources(surroundings.site_config_file, environment, config_files_named(uses));
  for (auto& source : gathered.sources) {
    HVD_TRY(auto config, cli::read_config_source(source));
    for (auto& setting : hosts_last(std::move(config.settings), gathered.notes))
      gathered.settings.push_back(std::move(setting));
    std::move(config.notes.begin(), config.notes.end(), std::back_inserter(gathered.notes));
  }
  for (auto& setting : hosts_last(settings_of(uses), gathered.notes))
    gathered.settings.push_back(std::move(setting));
  return gathered;
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

  HVD_TRY(auto gathered, gather_settings(words.options, environment, surroundings));
  Invocation invocation;
  auto& spec = invocation.spec;
  HVD_CHECK(cli::apply_settings(gathered.settings, spec));
  invocation.notes = std::move(words.notes);
  std::move(gathered.notes.begin(), gathered.notes.end(), std::back_inserter(invocation.notes));
  add_notes(spec, environment, invocation.notes);
  if (explains) {
    invocation.action = Invocation::Action::explain;
    invocation.text =
        cli::explain_text({std::move(gathered.sources), std::move(gathered.settings), words.command,
                           explain_program(words.command, environment, surroundings)});
    return invocation;
  }
  HVD_CHECK(check_command(words.command));
  spec.working_directory = surroundings.working_directory;
  if (spec.working_directory.empty())
    return fail("the current directory does not exist any more; cd to another", kExitUsage);
  HVD_TRY(spec.program,
          cli::find_program(words.command.front(), environment, surroundings.working_directory));
  spec.command = std::move(words.command);
  return invocation;
}

}  // namespace hvdrun
