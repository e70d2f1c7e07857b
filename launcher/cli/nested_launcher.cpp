#include "cli/nested_launcher.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

struct Launcher {
  std::string_view name;    // of the program, up to its first dot: mpirun.openmpi is mpirun
  std::string_view module;  // of Python that does the same; empty: none
  bool one_per_host;        // it is made to be started once on each host
};

constexpr std::array kLaunchers{
    Launcher{"torchrun", "torch.distributed.run", true},
    Launcher{"torchrun", "torch.distributed.launch", true},
    Launcher{"accelerate launch", "accelerate.commands.launch", true},
    Launcher{"deepspeed", "deepspeed.launcher.runner", false},
    Launcher{"horovodrun", "horovod.runner.launch", false},
    Launcher{"hvdrun", "", false},
    Launcher{"mpirun", "", false},
    Launcher{"mpiexec", "", false},
    Launcher{"srun", "", false},
};

// Options by which torchrun and accelerate are given their host's place among several.
constexpr std::array<std::string_view, 8> kSeveralHosts{
    "--nnodes",       "--rdzv",         "--node_rank",    "--node-rank",
    "--num_machines", "--num-machines", "--machine_rank", "--machine-rank"};

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

bool names_several_hosts(const std::vector<std::string>& command) {
  return std::any_of(command.begin() + 1, command.end(), [](std::string_view word) {
    return std::any_of(kSeveralHosts.begin(), kSeveralHosts.end(),
                       [word](std::string_view option) { return word.starts_with(option); });
  });
}

// The variables of a process that hvdrun, Open MPI's mpirun or MPICH's mpiexec has started.
struct RankVariables {
  std::string_view rank;
  std::string_view size;
};
constexpr std::array kRankVariables{RankVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    RankVariables{"PMI_RANK", "PMI_SIZE"}};

// Options of the launchers that have a value in the next word.
constexpr std::array<std::string_view, 17> kWithValue{
    "-np",   "-n",     "-N",        "-c",         "--ntasks",        "-H",
    "-host", "--host", "-hosts",    "--hostfile", "-hostfile",       "-machinefile",
    "-x",    "-genv",  "--bind-to", "--map-by",   "--nproc_per_node"};
constexpr std::array<std::string_view, 6> kCounts{
    "-np", "-n", "--ntasks", "--nproc_per_node", "--nproc-per-node", "--num_processes"};

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

// Returns the program that the launcher would start, as far as its words show it: a Python script
// or module, or the first word after options that are known. Otherwise "program".
std::string program_in(const std::vector<std::string>& command, bool by_module) {
  const auto first = command.begin() + 1;
  const auto script = std::find_if(first, command.end(), [](std::string_view word) {
    return word.ends_with(".py") && !word.starts_with('-');
  });
  if (script != command.end()) return "python3 " + join(script, command.end());
  if (!by_module) {
    const auto module = std::find(first, command.end(), "-m");
    if (module != command.end() && command.front().ends_with("torchrun"))
      return "python3 " + join(module, command.end());
    auto word = first;
    while (word != command.end() && word->starts_with('-')) {
      const bool has_value = is_one_of(kWithValue, *word) || is_one_of(kCounts, *word);
      if (!has_value && word->find('=') == std::string::npos) return "program";
      word += std::min<std::ptrdiff_t>(has_value ? 2 : 1, command.end() - word);
    }
    if (word != command.end() && command.front().find("accelerate") == std::string::npos)
      return join(word, command.end());
  }
  return "program";
}

// Returns how many processes the launcher is asked for, or "N".
std::string count_in(const std::vector<std::string>& command) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string_view word = command[i];
    const auto equals = word.find('=');
    if (!is_one_of(kCounts, word.substr(0, equals))) continue;
    if (equals != std::string_view::npos && is_number(word.substr(equals + 1)))
      return std::string(word.substr(equals + 1));
    if (equals == std::string_view::npos && i + 1 < command.size() && is_number(command[i + 1]))
      return command[i + 1];
  }
  return "N";
}

}  // namespace

Result<void> check_nested_launcher(const std::vector<std::string>& command, const JobSpec& spec,
                                   std::string_view subcommand) {
  if (command.empty() || spec.ranks == 1) return {};
  const auto* const launcher = find_launcher(command);
  if (launcher == nullptr) return {};
  if (command.size() == 2 && is_one_of(kQuestions, command[1])) return {};
  if (launcher->one_per_host && (spec.ranks_per_host == 1 || names_several_hosts(command)))
    return {};
  std::string line = subcommand.empty() ? "hvdrun " : fmt::format("hvdrun {} ", subcommand);
  if (launcher->name == "hvdrun")
    line += join(command.begin() + 1, command.end());
  else
    line += fmt::format("-np {} {}{}", count_in(command), subcommand.empty() ? "" : "-- ",
                        program_in(command, !module_of(command).empty()));
  auto text =
      fmt::format("{} starts ranks itself, and hvdrun would start it once in each slot: type {}",
                  launcher->name, line);
  if (launcher->name != "hvdrun" && subcommand.empty())
    text += fmt::format(", or {} without hvdrun", launcher->name);
  if (launcher->one_per_host) text += "; hvdrun --ranks-per-host 1 starts it once on each host";
  return fail(text, kExitUsage);
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
