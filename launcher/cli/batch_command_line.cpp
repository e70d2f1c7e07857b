#include "cli/batch_command_line.hpp"

#include "cli/batch_options.hpp"
#include "cli/explain.hpp"
#include "cli/gather_settings.hpp"
#include "cli/help.hpp"
#include "cli/option_sets.hpp"
#include "cli/words.hpp"
#include "common/text.hpp"
#include "slurm/warning_signal.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using cli::ParsedOption;
using cli::Setting;
using cli::ValueKind;

// Returns whether the option has its effect on the allocation, so that the hvdrun inside must not
// get it.
bool is_for_allocation(const ParsedOption& use, const BatchSpec& batch) {
  const auto name = use.option->name;
  return name == "num-proc" || name == "nnodes" || name == "cpus-per-rank" ||
         (batch.requeue && (name == "max-restarts" || name == "max-requeues"));
}

std::string absolute(const std::string& file) {
  std::error_code error;
  const auto path = std::filesystem::absolute(file, error);
  return error ? file : path.string();
}

std::vector<std::string> options_for_hvdrun(const std::vector<ParsedOption>& uses,
                                            const BatchSpec& batch) {
  std::vector<std::string> words;
  for (const auto& use : uses) {
    const bool is_config_file = use.option->kind == ValueKind::config_file;
    if ((use.option->apply == nullptr && !is_config_file) || is_for_allocation(use, batch))
      continue;
    if (!cli::takes_value(*use.option)) {
      words.push_back(use.spelling);
    } else if (use.value.substr(0, 1) == "-") {
      words.push_back(use.spelling + "=" + use.value);
    } else {
      words.push_back(use.spelling);
      words.push_back(is_config_file ? absolute(use.value) : use.value);
    }
  }
  return words;
}

// Refuses options of hvdrun that mean something else to SLURM's sbatch and salloc, where the value
// shows that this was meant, or where hvdrun's own meaning has no use.
Result<void> check_slurms_meaning(const ParsedOption& use, const Environment& environment) {
  const auto name = use.option->name;
  if (use.spelling == "-x" && use.value.find('=') == std::string::npos &&
      find_variable(environment, use.value) == nullptr)
    return usage_error(
        "-x " + quote_if_needed(use.value) +
        ": there is no such variable here, and those that the job sets reach the ranks "
        "without -x; to leave out hosts: --sbatch-arg=--exclude=" +
        use.value);
  if (name == "include" || name == "exclude")
    return usage_error(use.spelling + ": SLURM chooses the hosts; use --sbatch-arg=--" +
                       (name == "include" ? "nodelist=" : "exclude=") + use.value);
  if (use.spelling == "-i")
    return usage_error(
        "-i is a private key of ssh, which a SLURM job does not use; to give the program a file as "
        "input: sh -c 'exec PROGRAM < FILE'");
  return {};
}

Result<void> check_uses(const std::string& command, const std::vector<ParsedOption>& uses,
                        const Environment& environment) {
  for (const auto& use : uses) {
    HVD_CHECK(check_slurms_meaning(use, environment));
    const auto name = use.option->name;
    if (name == "hosts" || name == "hostfile")
      return fail(use.spelling + ": SLURM chooses the hosts; hvdrun " + command +
                      " takes --nodes N, and --sbatch-arg=--nodelist=HOSTS",
                  kExitUsage);
    if (name == "dry-run" || name == "json")
      return fail(use.spelling + " cannot be used here: hvdrun " + command +
                      " --explain prints where "
                      "each setting comes from, and hvdrun sbatch prints the script",
                  kExitUsage);
    if (name == "tty" && command == "sbatch")
      return fail(use.spelling +
                      ": a batch job has no terminal; hvdrun salloc starts the program in this one",
                  kExitUsage);
    if (command == "salloc" && cli::is_of_scripts(*use.option))
      return fail(use.spelling + " is an option of hvdrun sbatch only", kExitUsage);
  }
  return {};
}

// Returns a note about a time limit such as 1:30, in which people see hours; otherwise "".
std::string short_time_note(const ParsedOption& use) {
  if (use.option->name != "time" || use.value.find('-') != std::string::npos ||
      std::ranges::count(use.value, ':') != 1)
    return {};
  const auto limit = parse_limit(use.value);
  if (!limit) return {};
  return fmt::format("{0} {1} is minutes:seconds, {2} s in all; for hours: {0} {1}:00",
                     use.spelling, use.value, limit->count());
}

Result<std::vector<Setting>> default_settings(const std::vector<DefaultSetting>& defaults) {
  std::vector<Setting> settings;
  for (const auto& setting : defaults) {
    const auto* option = cli::find_option_by_name(setting.name, cli::batch_options());
    if (option == nullptr || option->apply_batch == nullptr)
      return fail(
          setting.source + ": --" + setting.name + " is not an option that a template can set",
          kExitUsage);
    settings.push_back(
        {option, setting.value, setting.source, setting.source + ": --" + setting.name});
  }
  return settings;
}

}  // namespace

Result<BatchInvocation> parse_batch_command_line(const std::string& command,
                                                 const std::vector<std::string>& args,
                                                 const Environment& environment,
                                                 const FindDefaults& find_defaults,
                                                 const SystemPaths& system_paths) {
  HVD_TRY(auto words, cli::split_words(args, cli::batch_options()));
  BatchInvocation invocation;
  const bool explains = words.action != nullptr && words.action->name == "explain";
  if (words.action != nullptr && !explains) {
    invocation.action = BatchInvocation::Action::help;
    invocation.text =
        words.action->name == "version" ? cli::version_text() : cli::batch_help_text(command);
    return invocation;
  }
  HVD_CHECK(check_uses(command, words.options, environment));
  HVD_TRY(auto gathered,
          cli::gather_settings(words.options, environment, system_paths.site_config_file));
  auto& settings = gathered.settings;
  {
    JobSpec job;
    BatchSpec batch;
    HVD_CHECK(cli::apply_settings(settings, job, &batch));
    HVD_TRY(const auto defaults, find_defaults(batch));
    HVD_TRY(auto first, default_settings(defaults));
    settings.insert(settings.begin(), std::make_move_iterator(first.begin()),
                    std::make_move_iterator(first.end()));
  }
  // A config file or a template may also be used for sbatch.
  if (command == "salloc")
    std::erase_if(settings,
                  [](const Setting& setting) { return cli::is_of_scripts(*setting.option); });
  HVD_CHECK(cli::apply_settings(settings, invocation.job, &invocation.batch));
  invocation.notes = std::move(words.notes);
  for (const auto& use : words.options)
    if (use.option->name == "oversubscribe" && use.value == "true")
      invocation.notes.push_back(
          use.spelling +
          " allows more ranks than GPUs; SLURM's, by which jobs share nodes, is "
          "--sbatch-arg=--oversubscribe");
  std::move(gathered.notes.begin(), gathered.notes.end(), std::back_inserter(invocation.notes));
  for (const auto& use : words.options)
    if (auto note = short_time_note(use); !note.empty())
      invocation.notes.push_back(std::move(note));
  if (explains) {
    invocation.action = BatchInvocation::Action::explain;
    invocation.text = cli::explain_text({cli::batch_options(),
                                         std::move(gathered.sources),
                                         std::move(settings),
                                         words.command,
                                         {}});
    return invocation;
  }
  invocation.hvdrun_options = options_for_hvdrun(words.options, invocation.batch);
  invocation.uses = std::move(words.options);
  invocation.command = std::move(words.command);
  return invocation;
}

}  // namespace hvdrun
