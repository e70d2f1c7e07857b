#include "cli/nested_launcher.hpp"

#include "base/is_one_of.hpp"
#include "cli/batch_options.hpp"
#include "cli/first_word.hpp"
#include "cli/foreign_options.hpp"
#include "cli/launchers.hpp"
#include "cli/option.hpp"
#include "cli/option_sets.hpp"
#include "cli/program.hpp"
#include "cli/shell_text.hpp"
#include "cli/started_commands.hpp"
#include "cli/translated_command.hpp"
#include "common/file_content.hpp"
#include "common/shell_words.hpp"
#include "common/variables.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

constexpr std::size_t kScriptStart = 65536;  // bytes of a script that are looked at

// It reads from variables which of the hosts it is on.
constexpr std::string_view kTorchrunOptions = "torchrun";
// With these alone, launchers only print something.
constexpr std::array<std::string_view, 4> kQuestions{"--version", "-V", "--help", "-h"};
// Commands of hvdrun that ask SLURM for a job.
constexpr std::array<std::string_view, 2> kSubmitting{"salloc", "sbatch"};
// Commands of hvdrun that start ranks.
constexpr std::array<std::string_view, 3> kStarting{"salloc", "sbatch", "scale"};
// A script with one of these lets a rank's number decide what it starts.
constexpr std::array<std::string_view, 7> kOfRanks{
    "HVD_RANK",  "LOCAL_RANK",          "$RANK", "${RANK", "SLURM_PROCID",
    "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};

// Returns whether the interpreter in the first line of a script is a shell: "#!/bin/sh -e",
// "#!/usr/bin/env -S bash -e".
bool names_shell(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(2);
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) return false;
    const auto word = line.substr(0, line.find_first_of(kBlanks));
    const auto name = base_name(word);
    if (is_shell(name)) return true;
    if (name != "env" && !word.starts_with('-') && !is_assignment(word)) return false;
    line.remove_prefix(word.size());
  }
}

// Returns the start of a file if it is a shell's script: with a shell in its first line, or named
// *.sh without an interpreter there.
std::optional<std::string> read_shell_script(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  std::string text = content_of(file, kScriptStart);
  if (text.find('\0') != std::string::npos) return std::nullopt;
  const auto first = std::string_view(text).substr(0, text.find('\n'));
  const bool is_script = first.starts_with("#!") ? names_shell(first) : file.extension() == ".sh";
  return is_script ? std::optional(std::move(text)) : std::nullopt;
}

struct Nested {
  StartedCommand started;
  FoundLauncher launcher;
  bool is_of_wrap = false;  // --wrap starts it, not the program's words
};

std::string quoted(const std::string& word, bool in_shell) {
  return in_shell ? quote_with_variables(word) : quote_for_shell(word);
}

// Returns an option as it is typed, with a blank after it.
std::string typed_option(const ParsedOption& use, bool in_shell, bool is_batch) {
  const auto& [option, spelling, value] = use;
  const auto* const foreign = find_foreign_option(spelling, is_batch);
  const bool is_foreign_flag = foreign != nullptr && foreign->kind == ForeignOption::Kind::flag &&
                               find_option_by_spelling(spelling, all_options()) == nullptr;
  if (!takes_value(*option) || is_foreign_flag) return quote_for_shell(spelling) + " ";
  // A script's variable has no value where the line is typed.
  const bool is_unknown =
      in_shell && option->kind == ValueKind::number && value.find('$') != std::string::npos;
  const bool is_attached = value.starts_with('-') && spelling.starts_with("--");
  return quote_for_shell(spelling) + (is_attached ? "=" : " ") +
         (is_unknown ? "N" : quoted(value, in_shell)) + " ";
}

// Returns the user's own options without those that the launcher's options decide.
std::string own_options(const TypedJob& job, const TranslatedCommand& translated, bool is_of_wrap) {
  constexpr std::array<std::string_view, 3> kCounts{"num-proc", "ranks-per-host", "nnodes"};
  constexpr std::array<std::string_view, 2> kHosts{"hosts", "hostfile"};
  std::string text;
  for (const auto& use : job.options) {
    const auto name = use.option->name;
    if (translated.has_count && is_one_of(name, kCounts)) continue;
    if (translated.has_hosts && is_one_of(name, kHosts)) continue;
    if (is_of_wrap && name == "wrap") continue;
    text += typed_option(use, false, !job.subcommand.empty());
  }
  return text;
}

// Returns whether each use of the option adds to those before it.
bool is_repeatable(const Option& option) {
  return option.kind == ValueKind::environment || option.kind == ValueKind::list ||
         option.help.find("may be repeated") != std::string_view::npos;
}

// The options that a user gave before the program, and those of the hvdrun that is the program.
// Where both say the same thing, the line has it once; where they differ, the inner one applies.
struct JoinedOptions {
  std::string text;
  std::string left_out;  // "-np 4"
};

JoinedOptions join_options(const std::vector<ParsedOption>& outer,
                           const std::vector<ParsedOption>& inner, bool in_shell, bool is_batch) {
  constexpr std::array<std::string_view, 2> kHosts{"hosts", "hostfile"};
  const auto is_same = [](const ParsedOption& a, const ParsedOption& b) {
    return a.option->name == b.option->name && a.value == b.value;
  };
  const auto replaces = [&](const ParsedOption& later, const ParsedOption& earlier) {
    const auto name = earlier.option->name;
    return (later.option->name == name && !is_repeatable(*later.option)) ||
           (is_one_of(name, kHosts) && is_one_of(later.option->name, kHosts));
  };
  JoinedOptions joined;
  std::vector<const ParsedOption*> kept;
  for (const auto& use : outer) {
    const bool is_replaced = std::ranges::any_of(inner, [&](const ParsedOption& other) {
      return replaces(other, use) && !is_same(other, use);
    });
    auto text = typed_option(use, false, is_batch);
    if (is_replaced) {
      text.pop_back();
      joined.left_out += (joined.left_out.empty() ? "" : ", ") + text;
    } else {
      joined.text += text;
      kept.push_back(&use);
    }
  }
  for (const auto& use : inner)
    if (std::ranges::none_of(kept, [&](const ParsedOption* other) { return is_same(*other, use); }))
      joined.text += typed_option(use, in_shell, is_batch);
  return joined;
}

// Returns what to type for `hvdrun … hvdrun scale …`. The study decides how many ranks there are.
// In a job of SLURM it runs once, as the job's shell, which only salloc has.
std::string line_for_study(const std::vector<std::string>& words, const TypedJob& job) {
  std::vector<ParsedOption> kept;
  std::string left_out;
  if (job.subcommand.empty()) {
    std::ranges::copy_if(job.options, std::back_inserter(kept),
                         [](const ParsedOption& use) { return use.option->name != "num-proc"; });
    return fmt::format("hvdrun scale {}{}", join_options(kept, {}, false, false).text,
                       shell_line(std::span(words).subspan(1)));
  }
  for (const auto& use : job.options) {
    if (!is_of_scripts(*use.option))
      kept.push_back(use);
    else
      left_out += (left_out.empty() ? "" : ", ") + use.spelling;
  }
  const bool has_count = std::ranges::any_of(
      kept, [](const ParsedOption& use) { return use.option->name == "num-proc"; });
  return fmt::format("hvdrun salloc {}{}-- sh -c {}{}", join_options(kept, {}, false, true).text,
                     has_count ? "" : "-np N ", quote_for_shell("hvdrun " + shell_line(words)),
                     left_out.empty() ? "" : "; the line leaves out " + left_out);
}

// Returns what to type for `hvdrun … hvdrun …`: one hvdrun, with the options and words of both.
std::string line_for_hvdrun(const Nested& nested, const TypedJob& job) {
  const auto& [started, found, is_of_wrap] = nested;
  std::vector<std::string> words(found.words.begin(), found.words.end());
  std::string subcommand(job.subcommand);
  if (!words.empty() && is_one_of(words.front(), command_names())) {
    if (words.front() == "scale") return line_for_study(words, job);
    if (!is_one_of(words.front(), kSubmitting)) return "hvdrun " + shell_line(words);
    if (subcommand.empty()) subcommand = words.front();
    words.erase(words.begin());
  }
  const bool is_batch = !subcommand.empty();
  const auto inner = split_words(words, is_batch ? batch_options() : run_options());
  const bool is_read = inner && inner->action == nullptr;
  auto outer = job.options;
  if (is_of_wrap)
    std::erase_if(outer, [](const ParsedOption& use) { return use.option->name == "wrap"; });
  const auto joined = join_options(outer, is_read ? inner->options : std::vector<ParsedOption>(),
                                   started.in_shell, is_batch);
  std::string line = "hvdrun " + (is_batch ? subcommand + " " : "") + joined.text;
  if (!is_read) return line + shell_line(words);
  if (is_batch) line += "-- ";
  for (const auto& word : started.before) line += quoted(word, started.in_shell) + " ";
  for (const auto& word : inner->command) line += quoted(word, started.in_shell) + " ";
  if (inner->command.empty()) line += "program ";
  line.pop_back();
  return line + (joined.left_out.empty() ? "" : "; the line leaves out " + joined.left_out);
}

// Returns what to type: "hvdrun sbatch -np 2 -- python3 train.py", and what the line leaves out.
std::string line_for(const Nested& nested, const std::vector<std::string>& command,
                     const TypedJob& job) {
  const auto& [started, found, is_of_wrap] = nested;
  const auto& spec = job.spec;
  if (found.launcher.name == "hvdrun") return line_for_hvdrun(nested, job);
  std::string line = "hvdrun ";
  if (!job.subcommand.empty()) line += std::string(job.subcommand) + " ";
  // In a job there is one rank per slot; a job that is asked for needs a number.
  const bool in_job = spec.has_scheduler && job.subcommand.empty();
  const bool has_hosts = !spec.hosts.empty() || !spec.hostfile.empty();
  const auto translated =
      translated_command(found.launcher.like, found.words,
                         {.finds_hosts = in_job || !job.subcommand.empty(),
                          .has_hosts = has_hosts,
                          .has_count = in_job || has_hosts || spec.ranks || spec.ranks_per_host,
                          .is_batch = !job.subcommand.empty(),
                          .in_script = started.in_shell});
  line += own_options(job, translated, is_of_wrap);
  if (!translated.options.empty()) line += translated.options + " ";
  if (!job.subcommand.empty()) line += "-- ";
  auto before = std::span(started.before);
  if (!before.empty() && base_name(before.back()).starts_with("python"))
    before = before.first(before.size() - 1);  // of `python3 torchrun`
  for (const auto& word : before) line += quoted(word, started.in_shell) + " ";
  line += translated.program;
  if (job.subcommand.empty())
    line += fmt::format(", or {} without hvdrun",
                        started.script.empty() ? found.called : shell_line(command));
  if (!translated.left_out.empty()) line += "; the line leaves out " + translated.left_out;
  return line;
}

std::string describe(const Nested& nested, const std::vector<std::string>& command,
                     const TypedJob& job) {
  const auto& [started, found, is_of_wrap] = nested;
  const auto& launcher = found.launcher;
  std::string text;
  if (!started.script.empty())
    text = fmt::format("{} runs {}: ", quote_for_shell(started.script), found.called);
  text += found.called;
  text += launcher.submits ? " submits a job" : " starts ranks itself";
  text += ", and hvdrun would start it once in each slot: type ";
  if (launcher.submits || launcher.like.empty())
    text += found.called + (found.words.empty() ? "" : " …") + " without hvdrun";
  else
    text += line_for(nested, command, job);
  if (launcher.one_per_host && launcher.like == kTorchrunOptions)
    text += "; hvdrun --ranks-per-host 1 starts it once on each host";
  return text;
}

// Returns the warning about a launcher that may not run, or that may be none.
std::string describe_doubt(const Nested& nested, const std::vector<std::string>& command,
                           const TypedJob& job) {
  const auto& [started, found, is_of_wrap] = nested;
  if (found.is_guess)
    return fmt::format(
        "{0} seems to be a launcher, and hvdrun starts it once in each slot; if it starts ranks "
        "itself, type {1}; hvdrun run {0} … starts it without this warning",
        found.called, line_for(nested, command, job));
  return fmt::format("{} may run {}, which {}, once in each slot",
                     started.script.empty() ? "the program" : quote_for_shell(started.script),
                     found.called,
                     found.launcher.submits ? "submits a job" : "starts ranks itself");
}

// Returns whether the launcher may not start here.
bool is_refused(const StartedCommand& started, const FoundLauncher& found, const JobSpec& spec) {
  const auto& words = found.words;
  if (words.size() == 1 && is_one_of(words.front(), kQuestions)) return false;
  if (found.launcher.one_per_host && spec.ranks_per_host == 1) return false;
  // A script may look at jobs.
  const bool only_looks = found.launcher.name == "hvdrun" && started.in_shell && !words.empty() &&
                          is_one_of(words.front(), command_names()) &&
                          !is_one_of(words.front(), kStarting);
  return !only_looks;
}

// The commands that a job starts: those of the program's words, then those of --wrap with them.
struct JobCommands {
  std::vector<StartedCommand> all;
  std::size_t of_program = 0;    // the number of the first ones
  bool chooses_by_rank = false;  // a script or text of a shell looks at the rank's number
};

JobCommands commands_of_job(const std::vector<std::string>& command, const TypedJob& job) {
  JobCommands commands;
  const auto note_choice = [&](const std::string& text) {
    commands.chooses_by_rank |= std::ranges::any_of(
        kOfRanks, [&](std::string_view name) { return text.find(name) != std::string::npos; });
  };
  const auto read_script = [&](const std::string& file) {
    auto text = read_shell_script(job.folder / file);
    if (text) note_choice(*text);
    return text;
  };
  for (const auto& word : command) note_choice(word);
  commands.all = started_commands(command, read_script);
  commands.of_program = commands.all.size();
  if (const auto& wrap = job.spec.wrap.command; !wrap.empty()) {
    note_choice(wrap);
    auto more = started_commands({"sh", "-c", wrap + " " + shell_line(command)}, read_script);
    std::ranges::move(more, std::back_inserter(commands.all));
  }
  return commands;
}

struct NestedLaunchers {
  std::vector<Nested> found;  // in the order in which they would start
  bool chooses_by_rank = false;
};

NestedLaunchers nested_launchers(const std::vector<std::string>& command, const TypedJob& job) {
  const IsProgram is_program = [&](const std::string& word) {
    std::error_code error;
    return static_cast<bool>(find_program(word, job.environment, job.folder)) ||
           (word.ends_with(".py") && std::filesystem::exists(job.folder / word, error));
  };
  auto commands = commands_of_job(command, job);
  NestedLaunchers all{{}, commands.chooses_by_rank};
  for (const bool guesses : {false, true}) {
    if (guesses && !all.found.empty()) break;
    for (std::size_t i = 0; i < commands.all.size(); ++i) {
      auto& each = commands.all[i];
      if (guesses && (each.in_shell || !each.is_certain)) continue;
      const auto found = find_launcher(each.words, guesses ? is_program : IsProgram());
      if (!found || !is_refused(each, *found, job.spec)) continue;
      // The launcher's words are those of the command, which keep their place when it is moved.
      all.found.push_back(Nested{std::move(each), *found, i >= commands.of_program});
    }
  }
  return all;
}

// The variables of a process that hvdrun, Open MPI's mpirun or MPICH's mpiexec has started.
struct RankVariables {
  std::string_view rank;
  std::string_view size;
  std::string_view launcher;
};
// The variables of Open MPI are those of hvdrun's ranks, too.
constexpr std::array kRankVariables{
    RankVariables{HVD_ENV_RANK, HVD_ENV_SIZE, "another hvdrun"},
    RankVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "another launcher"},
    RankVariables{"PMI_RANK", "PMI_SIZE", "another launcher"},
    RankVariables{"PALS_RANKID", "PALS_SIZE", "another launcher"}};

}  // namespace

Result<std::string> check_nested_launcher(const std::vector<std::string>& command,
                                          const TypedJob& job) {
  if (command.empty() || job.spec.ranks == 1) return std::string();
  const auto [nested, chooses_by_rank] = nested_launchers(command, job);
  std::string warning;
  for (const auto& each : nested) {
    const bool is_certain = each.started.is_certain && !each.launcher.is_guess;
    if (is_certain) return fail(describe(each, command, job), kExitUsage);
    if (!chooses_by_rank && warning.empty()) warning = describe_doubt(each, command, job);
  }
  return warning;
}

bool is_script_with_launcher(const std::vector<std::string>& command, const TypedJob& job) {
  if (command.empty()) return false;
  const auto all = nested_launchers(command, job).found;
  return std::ranges::any_of(all, [](const Nested& nested) {
    return nested.started.in_shell && nested.started.is_certain && !nested.is_of_wrap &&
           !nested.launcher.launcher.submits;
  });
}

bool starts_torchrun(const std::vector<std::string>& command, const TypedJob& job) {
  if (command.empty()) return false;
  const auto commands = commands_of_job(command, job).all;
  return std::ranges::any_of(commands, [](const StartedCommand& each) {
    const auto found = find_launcher(each.words, IsProgram());
    return found && found->launcher.like == kTorchrunOptions && found->launcher.one_per_host;
  });
}

std::string several_runs_warning(const Environment& environment, const JobSpec& spec) {
  if (spec.ranks == 1) return {};
  for (const auto& [rank_name, size_name, launcher] : kRankVariables) {
    const auto* const rank = find_variable(environment, rank_name);
    const auto* const size = find_variable(environment, size_name);
    if (rank == nullptr || size == nullptr || *rank != "0") continue;
    if (*size != "1")
      return fmt::format(
          "{2} has started hvdrun {0} times ({1}={0}), and each starts all ranks: start hvdrun "
          "once, without {3}",
          *size, size_name, launcher, launcher == "another hvdrun" ? "the outer one" : "it");
  }
  return {};
}

std::string container_warning(const std::vector<std::string>& command, const JobSpec& spec) {
  if (command.empty()) return {};
  const auto name = base_name(command.front());
  const bool is_podman = name == "podman";
  if (spec.ranks == 1 || (!is_podman && name != "docker")) return {};
  const auto run = std::find(command.begin() + 1, command.end(), "run");
  const bool has_variables = std::any_of(run, command.end(), [](std::string_view word) {
    return word.starts_with("--env") || word.starts_with("-e");
  });
  if (run == command.end() || has_variables) return {};
  return fmt::format(
      "{} run gives the container none of the ranks' variables, so each rank runs by itself: add "
      "{} "
      "(hvdrun help containers)",
      name, is_podman ? "--env-host" : "--env-file FILE");
}

}  // namespace hvdrun::cli
