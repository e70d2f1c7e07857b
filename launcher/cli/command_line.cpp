#include "cli/command_line.hpp"

#include "base/files.hpp"
#include "base/severity.hpp"
#include "cli/accelerate.hpp"
#include "cli/elastic_options.hpp"
#include "cli/explain.hpp"
#include "cli/first_word.hpp"
#include "cli/gather_settings.hpp"
#include "cli/help.hpp"
#include "cli/horovod_module.hpp"
#include "cli/nested_launcher.hpp"
#include "cli/option_sets.hpp"
#include "cli/program.hpp"
#include "cli/words.hpp"
#include "common/file_content.hpp"
#include "common/shell_words.hpp"
#include "common/text.hpp"
#include "model/device_choice.hpp"
#include "schedulers/schedulers.hpp"
#include "slurm/quoting.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

Invocation plain_action(std::string_view name, std::string_view word) {
  Invocation invocation;
  if (name == "help") {
    invocation.action = Invocation::Action::help;
    invocation.text = word == "-h" ? cli::short_help_text() : cli::help_text();
  } else if (name == "version") {
    invocation.action = Invocation::Action::version;
    invocation.text = cli::version_text();
  } else {
    invocation.action = Invocation::Action::check_build;
  }
  return invocation;
}

// Returns whether the text is no variable's name, but rather a host's or a list of hosts: "n1".
bool looks_like_hosts(std::string_view text) {
  if (text.find_first_of("[,.-") != std::string_view::npos) return true;
  const bool has_digit = std::isdigit(static_cast<unsigned char>(text.back())) != 0;
  return has_digit &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string_view::npos;
}

// Returns whether the file may be a key of ssh: it begins as one, or cannot be read.
bool is_key_of_ssh(const std::filesystem::path& file) {
  constexpr std::string_view kStarts[] = {"-----BEGIN", "ssh-", "ecdsa-", "sk-"};
  constexpr std::size_t kLongest = 16;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return false;
  const auto content = content_of(file, kLongest);
  if (content.empty()) return true;
  return std::any_of(std::begin(kStarts), std::end(kStarts),
                     [&](std::string_view start) { return content.starts_with(start); });
}

// Adds notes about options that are accepted but have no effect.
void add_notes(const JobSpec& job, const Environment& environment,
               std::vector<std::string>& notes) {
  const ElasticSpec usual;
  if (!job.elastic.min_ranks && job.elastic.elastic_timeout != usual.elastic_timeout)
    notes.push_back("--elastic-timeout has no effect without --min-np");
  if (!job.elastic.min_ranks && job.elastic.reset_timeout != usual.reset_timeout)
    notes.push_back("--reset-timeout has no effect without --min-np");
  if (job.json && !job.dry_run) notes.push_back("--json has no effect without --dry-run");
  for (const auto& change : job.environment)
    if (!change.value && find_variable(environment, change.name) == nullptr)
      notes.push_back("-x " + change.name + " has no effect: it is not set in your environment");
  for (const auto& change : job.environment)
    if (change.value && !change.value->empty() && is_device_variable(change.name) &&
        job.ranks != 1 && job.ranks_per_host != 1)
      notes.push_back(warning_text(
          fmt::format("-x {0}={1} gives all ranks of a host the same devices; {0}={1} hvdrun … "
                      "starts one rank for each",
                      change.name, *change.value)));
  constexpr std::chrono::seconds kUsualWarning{60};
  const auto warning_time = job.collectives.stall_warning.value_or(kUsualWarning);
  if (const auto end = job.collectives.stall_shutdown;
      end && end->count() > 0 && *end < warning_time)
    notes.push_back(
        fmt::format("--stall-check-shutdown-time-seconds ends no job before the warning, which "
                    "comes after {} s (--stall-check-warning-time-seconds)",
                    std::chrono::duration<double>(warning_time).count()));
  if (const auto warning = cli::several_runs_warning(environment, job); !warning.empty())
    notes.push_back(warning_text(warning));
}

std::string explain_program(const std::vector<std::string>& command, const Environment& environment,
                            const std::filesystem::path& folder) {
  if (command.empty()) return {};
  const auto found = cli::find_program(command.front(), environment, folder);
  return found ? found->string() : found.error().message;
}

// Returns the words before and after the program's name, as a message shows them.
cli::TypedLine typed_line(const std::vector<std::string>& args, const cli::SplitWords& words,
                          std::string_view called) {
  cli::TypedLine line{std::string(called), {}};
  const bool is_horovodrun = called == kHorovodrun;  // its first word is the --horovod that we add
  for (std::size_t i = is_horovodrun ? 1 : 0; i < words.program_at; ++i)
    line.before += " " + quote_for_shell(args[i]);
  for (std::size_t i = 1; i < words.command.size(); ++i)
    line.after += " " + quote_for_shell(words.command[i]);
  return line;
}

// Sets the folder of --chdir, or the current one. Files that the ranks write for hvdrun stay in the
// current one.
Result<void> settle_folder(JobSpec& spec, const std::filesystem::path& current) {
  if (current.empty())
    return fail("the current directory does not exist any more; cd to another", kExitUsage);
  if (!spec.working_directory.empty())
    for (auto* file : {&spec.timeline_file, &spec.collectives.autotune_log})
      if (!file->empty()) *file = (current / *file).string();
  spec.working_directory =
      spec.working_directory.empty() ? current : current / spec.working_directory;
  return {};
}

// Returns a note if -np follows the program, and none came before it; otherwise "".
std::string late_number_note(const std::vector<std::string>& command, const JobSpec& spec) {
  if (spec.ranks || spec.ranks_per_host) return {};
  for (std::size_t i = 1; i + 1 < command.size(); ++i) {
    const bool is_number = command[i + 1].find_first_not_of("0123456789") == std::string::npos &&
                           !command[i + 1].empty();
    if ((command[i] == "-np" || command[i] == "--np") && is_number)
      return fmt::format(
          "{0} {1} is an argument of {2}, because it follows it; to start {1} ranks: "
          "hvdrun {0} {1} {2} …",
          command[i], command[i + 1], quote_for_shell(command.front()));
  }
  return {};
}

// Refuses -x, -i and -c where the value shows that another program's options of one letter are
// meant: hosts to leave out (srun), a file of input (deepspeed), code (python).
Result<void> check_meanings(const std::vector<cli::ParsedOption>& uses,
                            const Environment& environment, const std::filesystem::path& current) {
  for (const auto& [option, spelling, value] : uses) {
    if (spelling == "-c" && value.find_first_of(" (=") != std::string::npos)
      return usage_error("-c needs a number of cores, not " + quote(value) +
                         "; to run code: hvdrun … python3 -c " + quote_for_shell(value));
    if (spelling == "-x" && value.find('=') == std::string::npos && looks_like_hosts(value) &&
        find_variable(environment, value) == nullptr)
      return fail("-x " + quote_if_needed(value) +
                      ": there is no such variable; to leave out a host, as SLURM's -x does: "
                      "--exclude " +
                      quote_for_shell(value),
                  kExitUsage);
    if (spelling == "-i" && !is_key_of_ssh(current / value))
      return fail("-i " + quote_if_needed(value) +
                      ": there is no key of ssh in that file; to give the program a file as input: "
                      "hvdrun … < FILE; to choose hosts: --include HOST,…",
                  kExitUsage);
  }
  return {};
}

// Adds the hosts of `horovodrun -np N` without hosts: N slots on this machine, however many cores
// and GPUs it has.
void add_horovodruns_hosts(std::vector<cli::Setting>& settings) {
  const cli::Setting* ranks = nullptr;
  for (const auto& setting : settings) {
    const auto name = setting.option->name;
    if (name == "hosts" || name == "hostfile") return;
    if (name == "num-proc") ranks = &setting;
  }
  if (ranks == nullptr) return;
  settings.push_back({cli::find_option_by_name("hosts"), "localhost:" + ranks->value,
                      std::string(kHorovodrun), ranks->named});
}

// Returns the variables of accelerate's config file. Without the file there are none, and
// accelerate uses its defaults.
Result<Environment> read_accelerate_config(const Environment& environment) {
  constexpr std::size_t kLargest = 1u << 20;
  const auto file = cli::accelerate_config(environment);
  if (file.empty()) return Environment();
  HVD_TRY(const auto text,
          read_file_if_there(file, kLargest, "--for accelerate: cannot read " + file.string()));
  if (!text) return Environment();
  auto variables = cli::accelerate_variables(*text);
  if (!variables) return with_context("--for accelerate: " + file.string(), variables.error());
  return variables;
}

// Returns a note if -H names what is a file here; otherwise "".
std::string hosts_in_file_note(const JobSpec& spec) {
  std::error_code error;
  if (spec.hosts.size() != 1) return {};
  const auto& name = spec.hosts.front().name;
  if (!std::filesystem::is_regular_file(spec.working_directory / name, error)) return {};
  return fmt::format("-H {0} names a host; for the hosts in the file {0}: --hostfile {0}", name);
}

// Chooses what people read in a log file, for a batch script, which has no terminal: lines of
// progress, which hvdrun follow shows, and equal lines only once.
void settle_log(JobSpec& spec, const Scheduler* scheduler, const Environment& environment) {
  if (scheduler == nullptr || !scheduler->is_batch(environment)) return;
  auto& output = spec.output;
  if (output.progress == ProgressMode::automatic) output.progress = ProgressMode::log;
  if (output.fold == FoldLines::automatic) output.fold = FoldLines::in_large_log;
}

// Replaces {index} in the values of options by the index of the array's task, as hvdrun sbatch does
// in its scripts. Returns a note about the program's words, which stay as they are; "" without
// {index} in them, or outside an array.
std::string replace_index(cli::SplitWords& words, const Scheduler* scheduler,
                          const Environment& environment) {
  if (scheduler == nullptr) return {};
  const auto variable = scheduler->array_variable();
  const auto* const index = find_variable(environment, variable);
  if (index == nullptr || index->empty()) return {};
  for (auto& use : words.options)
    for (auto at = use.value.find(kIndexPlace); at != std::string::npos;
         at = use.value.find(kIndexPlace, at + index->size()))
      use.value.replace(at, kIndexPlace.size(), *index);
  const auto has_index = [](const std::string& word) {
    return word.find(kIndexPlace) != std::string::npos;
  };
  const auto found = std::ranges::find_if(words.command, has_index);
  if (found == words.command.end()) return {};
  return fmt::format(
      "only hvdrun sbatch --array replaces {0} in the program's words; in a script of your own "
      "type \"{1}${2}{3}\"",
      kIndexPlace, found->substr(0, found->find(kIndexPlace)), variable,
      found->substr(found->find(kIndexPlace) + kIndexPlace.size()));
}

}  // namespace

std::filesystem::path SystemPaths::current_directory() {
  std::error_code error;
  return std::filesystem::current_path(error);
}

Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const SystemPaths& system_paths, std::string_view called) {
  std::vector<std::string> given = args;
  const bool is_horovodrun = called == kHorovodrun;
  if (is_horovodrun) given.insert(given.begin(), "--horovod");
  const auto* const scheduler = scheduler_of(environment);
  const bool has_scheduler = scheduler != nullptr && scheduler->started_by();
  HVD_TRY(auto words, cli::split_words(given, cli::run_options(), has_scheduler));
  auto index_note = replace_index(words, scheduler, environment);
  const bool explains = words.action != nullptr && words.action->name == "explain";
  if (words.action != nullptr && !explains)
    return plain_action(words.action->name, words.action_word);

  HVD_CHECK(check_meanings(words.options, environment, system_paths.working_directory));
  HVD_TRY(auto gathered,
          cli::gather_settings(words.options, environment, system_paths.site_config_file));
  if (is_horovodrun && !has_scheduler) add_horovodruns_hosts(gathered.settings);
  Invocation invocation;
  auto& spec = invocation.spec;
  spec.has_scheduler = has_scheduler;
  HVD_CHECK(cli::apply_settings(gathered.settings, spec));
  HVD_CHECK(cli::settle_elastic(spec, environment));
  settle_log(spec, scheduler, environment);
  invocation.notes = std::move(words.notes);
  std::move(gathered.notes.begin(), gathered.notes.end(), std::back_inserter(invocation.notes));
  if (!index_note.empty()) invocation.notes.push_back(std::move(index_note));
  add_notes(spec, environment, invocation.notes);
  if (explains) {
    invocation.action = Invocation::Action::explain;
    invocation.text = cli::explain_text(
        {cli::run_options(), std::move(gathered.sources), std::move(gathered.settings),
         words.command,
         explain_program(words.command, environment,
                         system_paths.working_directory / spec.working_directory)});
    return invocation;
  }
  HVD_CHECK(cli::check_command(words.command, "hvdrun -np N program … (hvdrun --help says more)" +
                                                  cli::taken_last(words.options, given)));
  HVD_CHECK(settle_folder(spec, system_paths.working_directory));
  const bool may_be_command = !words.is_program_explicit && !is_horovodrun;
  const cli::TypedJob typed{spec, words.options, environment, spec.working_directory};
  if (!words.says_run) {
    HVD_TRY(auto warning, cli::check_nested_launcher(words.command, typed));
    if (!warning.empty()) invocation.notes.push_back(warning_text(warning));
  }
  spec.starts_torchrun = spec.ranks_per_host == 1 && cli::starts_torchrun(words.command, typed);
  if (const auto warning = cli::container_warning(words.command, spec); !warning.empty())
    invocation.notes.push_back(warning_text(warning));
  for (auto note : {late_number_note(words.command, spec), hosts_in_file_note(spec)})
    if (!note.empty()) invocation.notes.push_back(std::move(note));
  if (may_be_command) HVD_CHECK(cli::check_first_word(words.command.front()));
  auto program = cli::find_program(words.command.front(), environment, spec.working_directory,
                                   typed_line(given, words, called));
  if (std::error_code error;
      !program && !std::filesystem::is_directory(spec.working_directory, error))
    return fail("there is no folder " + quote(spec.working_directory.string()) + " (--chdir)",
                kExitUsage);
  if (!program && program.error().exit_code == kExitNotFound)
    return fail(program.error().message + cli::hint_for_first_word(words.command, may_be_command),
                kExitNotFound);
  if (program && may_be_command) HVD_CHECK(cli::check_meant_command(words.command));
  if (program) HVD_CHECK(cli::check_first_line(words.command.front(), *program));
  HVD_TRY(spec.program, std::move(program));
  spec.typed = {std::string(called)};
  spec.typed.insert(spec.typed.end(), given.begin() + (is_horovodrun ? 1 : 0),
                    given.begin() + static_cast<std::ptrdiff_t>(words.program_at));
  spec.command = std::move(words.command);
  auto folders = cli::find_horovod_module();
  if (spec.horovod && !folders) return std::move(folders).error();
  if (folders) spec.hvd_folder = std::move(folders->hvd);
  if (spec.horovod) spec.horovod_folder = std::move(folders->horovod);
  if (spec.frameworks.contains(Framework::accelerate)) {
    HVD_TRY(auto variables, read_accelerate_config(environment));
    spec.accelerate = {variables.begin(), variables.end()};
  }
  return invocation;
}

}  // namespace hvdrun
