#include "cli/nested_launcher.hpp"

#include "cli/first_word.hpp"
#include "cli/launchers.hpp"
#include "cli/option.hpp"
#include "cli/program.hpp"
#include "cli/started_commands.hpp"
#include "cli/translated_command.hpp"
#include "common/file_content.hpp"
#include "common/shell_words.hpp"
#include "common/variables.h"

#include <algorithm>
#include <array>
#include <cstddef>
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
// Commands of hvdrun that start ranks.
constexpr std::array<std::string_view, 3> kStarting{"salloc", "sbatch", "scale"};
// A script with one of these lets a rank's number decide what it starts.
constexpr std::array<std::string_view, 6> kOfRanks{"HVD_RANK", "HVD_LOCAL_RANK", "$RANK",
                                                   "${RANK",   "LOCAL_RANK",     "SLURM_PROCID"};

bool is_one_of(const auto& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Returns the start of a file if it is a shell's script: named *.sh, or with a shell in its first
// line, or without such a line but executed by a shell.
std::optional<std::string> read_shell_script(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  std::string text = content_of(file, kScriptStart);
  if (text.find('\0') != std::string::npos) return std::nullopt;
  const auto first = std::string_view(text).substr(0, text.find('\n'));
  const bool has_shell = first.starts_with("#!") && first.find("sh") != std::string_view::npos;
  if (!has_shell && !(file.extension() == ".sh" && !first.starts_with("#!"))) return std::nullopt;
  return text;
}

// Returns the user's own options without those that the launcher's options decide.
std::string own_options(const TypedJob& job, bool has_count) {
  constexpr std::array<std::string_view, 5> kCounts{"num-proc", "ranks-per-host", "nnodes", "hosts",
                                                    "hostfile"};
  std::string text;
  for (const auto& [option, spelling, value] : job.options) {
    if (has_count && is_one_of(kCounts, option->name)) continue;
    text += quote_for_shell(spelling);
    if (takes_value(*option)) text += " " + quote_for_shell(value);
    text += " ";
  }
  return text;
}

// Returns what to type: "hvdrun sbatch -np 2 -- python3 train.py", and what the line leaves out.
std::string line_for(const StartedCommand& started, const FoundLauncher& found,
                     const TypedJob& job) {
  std::string line = "hvdrun ";
  if (!job.subcommand.empty()) line += std::string(job.subcommand) + " ";
  if (found.launcher.name == "hvdrun") return line + shell_line(found.words);
  // In a job there is one rank per slot; a job that is asked for needs a number.
  const bool in_job = job.spec.in_slurm_job && job.subcommand.empty();
  const auto translated =
      translated_command(found.launcher.like, found.words,
                         {.finds_hosts = in_job || !job.subcommand.empty(), .has_slots = in_job});
  // Without a number of its own it is the user's.
  const bool keeps_count = !translated.has_count && job.spec.ranks.has_value();
  line += own_options(job, translated.has_count);
  const bool adds_options =
      !translated.options.empty() && !(keeps_count && translated.options == "-np N");
  if (adds_options) line += translated.options + " ";
  if (!job.subcommand.empty()) line += "-- ";
  auto before = std::span(started.before);
  if (!before.empty() && base_name(before.back()).starts_with("python"))
    before = before.first(before.size() - 1);  // of `python3 torchrun`
  if (!before.empty()) line += shell_line(before) + " ";
  line += translated.program;
  if (job.subcommand.empty()) line += fmt::format(", or {} without hvdrun", found.called);
  if (!translated.left_out.empty()) line += "; the line leaves out " + translated.left_out;
  return line;
}

std::string describe(const StartedCommand& started, const FoundLauncher& found,
                     const TypedJob& job) {
  const auto& launcher = found.launcher;
  std::string text;
  if (!started.script.empty())
    text = fmt::format("{} runs {}: ", quote_for_shell(started.script), found.called);
  text += found.called;
  if (found.is_guess) text += " seems to be a launcher, which";
  text += launcher.submits ? " submits a job" : " starts ranks itself";
  text += ", and hvdrun would start it once in each slot: type ";
  if (launcher.submits || launcher.like.empty())
    text += found.called + (found.words.empty() ? "" : " …") + " without hvdrun";
  else
    text += line_for(started, found, job);
  if (launcher.one_per_host && launcher.like == kTorchrunOptions)
    text += "; hvdrun --ranks-per-host 1 starts it once on each host";
  if (found.is_guess) text += fmt::format("; hvdrun run {} … starts it as it is", found.called);
  return text;
}

// Returns whether the launcher may not start here.
bool is_refused(const StartedCommand& started, const FoundLauncher& found, const JobSpec& spec) {
  const auto& words = found.words;
  if (words.size() == 1 && is_one_of(kQuestions, words.front())) return false;
  if (found.launcher.one_per_host && spec.ranks_per_host == 1) return false;
  // A script may look at jobs.
  const bool only_looks = found.launcher.name == "hvdrun" && started.in_shell && !words.empty() &&
                          is_one_of(command_names(), words.front()) &&
                          !is_one_of(kStarting, words.front());
  return !only_looks;
}

struct Nested {
  StartedCommand started;
  FoundLauncher launcher;
};
struct NestedLaunchers {
  std::vector<Nested> found;     // in the order in which they would start
  bool chooses_by_rank = false;  // a script looks at the rank's number
};

NestedLaunchers nested_launchers(const std::vector<std::string>& command, const TypedJob& job) {
  NestedLaunchers all;
  const auto read_script = [&](const std::string& file) {
    auto text = read_shell_script(job.folder / file);
    if (text)
      all.chooses_by_rank |= std::ranges::any_of(
          kOfRanks, [&](std::string_view name) { return text->find(name) != std::string::npos; });
    return text;
  };
  const IsProgram is_program = [&](const std::string& word) {
    std::error_code error;
    return static_cast<bool>(find_program(word, job.environment, job.folder)) ||
           (word.ends_with(".py") && std::filesystem::exists(job.folder / word, error));
  };
  auto words = command;
  if (!job.spec.wrap.command.empty())
    words = {"sh", "-c", job.spec.wrap.command + " " + shell_line(command)};
  auto started = started_commands(words, read_script);
  for (const bool guesses : {false, true}) {
    if (guesses && !all.found.empty()) break;
    for (auto& each : started) {
      const auto found =
          find_launcher(each.words, guesses && !each.may_be_value ? is_program : IsProgram());
      if (!found || !is_refused(each, *found, job.spec)) continue;
      // The launcher's words are those of the command, which keep their place when it is moved.
      all.found.push_back(Nested{std::move(each), *found});
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
  for (const auto& [started, found] : nested) {
    if (started.is_certain) return fail(describe(started, found, job), kExitUsage);
    if (!chooses_by_rank && warning.empty())
      warning = fmt::format(
          "{} may run {}, which {}, once in each slot",
          started.script.empty() ? "the program" : quote_for_shell(started.script), found.called,
          found.launcher.submits ? "submits a job" : "starts ranks itself");
  }
  return warning;
}

bool is_script_with_launcher(const std::vector<std::string>& command, const TypedJob& job) {
  if (command.empty()) return false;
  const auto all = nested_launchers(command, job).found;
  return std::any_of(all.begin(), all.end(), [](const Nested& nested) {
    return nested.started.in_shell && !nested.launcher.launcher.submits;
  });
}

bool starts_torchrun(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const auto all = started_commands(command, [](const std::string&) { return std::nullopt; });
  return std::ranges::any_of(all, [](const StartedCommand& each) {
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
