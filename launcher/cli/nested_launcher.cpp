#include "cli/nested_launcher.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
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

// Returns the program that the launcher would start, as far as its name shows it: a Python script
// and what follows. Otherwise "program".
std::string program_in(const std::vector<std::string>& command) {
  const auto script = std::find_if(command.begin() + 1, command.end(), [](std::string_view word) {
    return word.ends_with(".py") && !word.starts_with('-');
  });
  if (script == command.end()) return "program";
  std::string program = "python3";
  for (auto word = script; word != command.end(); ++word) program += " " + quote_if_needed(*word);
  return program;
}

}  // namespace

Result<void> check_nested_launcher(const std::vector<std::string>& command, const JobSpec& spec) {
  if (command.empty() || spec.ranks == 1) return {};
  const auto* const launcher = find_launcher(command);
  if (launcher == nullptr) return {};
  if (launcher->one_per_host && (spec.ranks_per_host == 1 || names_several_hosts(command)))
    return {};
  auto text = fmt::format(
      "{} starts ranks itself, and hvdrun would start it once in each slot: type hvdrun -np N {}",
      launcher->name, program_in(command));
  if (launcher->name != "hvdrun") text += fmt::format(", or {} without hvdrun", launcher->name);
  if (launcher->one_per_host) text += "; hvdrun --ranks-per-host 1 starts it once on each host";
  return fail(text, kExitUsage);
}

}  // namespace hvdrun::cli
