#include "cli/nested_launcher.hpp"

#include "cli/translated_command.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

struct Launcher {
  std::string_view name;    // of the program, up to its first dot: mpirun.openmpi is mpirun
  std::string_view module;  // of Python that does the same; empty: none
  bool one_per_host;        // it is made to be started once on each host
};

constexpr std::string_view kTorchrunName = "torchrun";
constexpr std::array kLaunchers{
    Launcher{kTorchrunName, "torch.distributed.run", true},
    Launcher{kTorchrunName, "torch.distributed.launch", true},
    Launcher{"accelerate launch", "accelerate.commands.launch", true},
    Launcher{"deepspeed", "deepspeed.launcher.runner", false},
    Launcher{"horovodrun", "horovod.runner.launch", false},
    Launcher{"hvdrun", "", false},
    Launcher{"mpirun", "", false},
    Launcher{"mpiexec", "", false},
    Launcher{"srun", "", false},
};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns the module of `python3 [options] -m MODULE`, or an empty text.
std::string_view module_of(const std::vector<std::string>& command) {
  if (!base_name(command.front()).starts_with("python")) return {};
  for (std::size_t i = 1; i + 1 < command.size() && command[i].starts_with('-'); ++i)
    if (command[i] == "-m") return command[i + 1];
  return {};
}

const Launcher* find_launcher(const std::vector<std::string>& command) {
  const auto name = base_name(command.front()).substr(0, base_name(command.front()).find('.'));
  const auto called = name == "accelerate" && command.size() > 1
                          ? fmt::format("{} {}", name, command[1])
                          : std::string(name);
  const auto module = module_of(command);
  const auto* const at =
      std::find_if(kLaunchers.begin(), kLaunchers.end(), [&](const Launcher& launcher) {
        return launcher.name == called || (!module.empty() && launcher.module == module);
      });
  return at == kLaunchers.end() ? nullptr : at;
}

// The variables of a process that hvdrun, Open MPI's mpirun or MPICH's mpiexec has started.
struct RankVariables {
  std::string_view rank;
  std::string_view size;
};
constexpr std::array kRankVariables{RankVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    RankVariables{"PMI_RANK", "PMI_SIZE"}};

// With these alone, launchers only print something.
constexpr std::array<std::string_view, 4> kQuestions{"--version", "-V", "--help", "-h"};

bool is_one_of(const auto& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string join(std::vector<std::string>::const_iterator word,
                 std::vector<std::string>::const_iterator end) {
  std::string text;
  for (; word != end; ++word) text += (text.empty() ? "" : " ") + quote_if_needed(*word);
  return text;
}

// Returns the words after the launcher: after its name, after `accelerate launch`, or after the
// module of Python.
std::span<const std::string> words_of(const std::vector<std::string>& command,
                                      const Launcher& launcher) {
  auto from = command.begin() + 1;
  if (!module_of(command).empty())
    from = std::find(command.begin(), command.end(), "-m") + 2;
  else if (launcher.name.find(' ') != std::string_view::npos)
    ++from;
  return {from, command.end()};
}

}  // namespace

Result<void> check_nested_launcher(const std::vector<std::string>& command, const JobSpec& spec,
                                   std::string_view subcommand) {
  if (command.empty() || spec.ranks == 1) return {};
  const auto* const launcher = find_launcher(command);
  if (launcher == nullptr) return {};
  if (command.size() == 2 && is_one_of(kQuestions, command[1])) return {};
  if (launcher->one_per_host && spec.ranks_per_host == 1) return {};
  std::string line = subcommand.empty() ? "hvdrun " : fmt::format("hvdrun {} ", subcommand);
  std::string left_out;
  if (launcher->name == "hvdrun") {
    line += join(command.begin() + 1, command.end());
  } else {
    auto translated = translated_command(launcher->name, words_of(command, *launcher),
                                         subcommand.empty() ? "" : "-- ",
                                         spec.in_slurm_job || !subcommand.empty());
    line += translated.line;
    left_out = std::move(translated.left_out);
  }
  auto text =
      fmt::format("{} starts ranks itself, and hvdrun would start it once in each slot: type {}",
                  launcher->name, line);
  if (launcher->name != "hvdrun" && subcommand.empty())
    text += fmt::format(", or {} without hvdrun", launcher->name);
  if (!left_out.empty()) text += "; the line leaves out " + left_out;
  if (launcher->name == kTorchrunName)
    text += "; hvdrun --ranks-per-host 1 starts it once on each host";
  return fail(text, kExitUsage);
}

bool is_torchrun(const std::vector<std::string>& command) {
  const auto* const launcher = command.empty() ? nullptr : find_launcher(command);
  return launcher != nullptr && launcher->name == kTorchrunName;
}

std::string several_runs_warning(const Environment& environment, const JobSpec& spec) {
  if (spec.ranks == 1) return {};
  for (const auto& [rank_name, size_name] : kRankVariables) {
    const auto* const rank = find_variable(environment, rank_name);
    const auto* const size = find_variable(environment, size_name);
    if (rank == nullptr || size == nullptr || *rank != "0") continue;
    if (*size != "1")
      return fmt::format(
          "another launcher has started hvdrun {0} times ({1}={0}), and each starts all ranks: "
          "start hvdrun once, without it",
          *size, size_name);
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
