#include "cli/launchers.hpp"

#include "base/is_one_of.hpp"
#include "cli/started_commands.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>

namespace hvdrun::cli {
namespace {

constexpr Launcher kLaunchers[] = {
    {"torchrun*", {}, "torchrun", true, false, "torch.distributed.run torch.distributed.launch"},
    {"accelerate", "launch", "accelerate launch", true, false, "accelerate.commands.launch"},
    {"deepspeed", {}, "deepspeed", false, false, "deepspeed.launcher.runner"},
    {"horovodrun", {}, "horovodrun", false, false, "horovod.runner.launch"},
    {"composer", {}, "composer", true, false, "composer.cli.launcher"},
    {"colossalai", "run", "torchrun"},
    {"torchpack", "dist-run", "mpirun"},
    {"ft_launcher", {}, "torchrun", true, false, "nvidia_resiliency_ext.fault_tolerance.launcher"},
    {"dlrover-run", {}, "torchrun", true, false, "dlrover.trainer.torch.main"},
    {"tpurun", {}, "torchrun", true},
    {"lightning", "run", "lightning", true},
    {"fabric", "run", "lightning", true},
    {"bagua*", {}, "torchrun", true, false, "bagua.distributed.run bagua.distributed.launch"},
    {"fleetrun", {}, "torchrun", true, false, "paddle.distributed.launch"},
    {"mlx.launch", {}, "mpirun", false, false, "mlx.distributed_run"},
    {"hvdrun", {}, "hvdrun"},
    {"mpirun*", {}, "mpirun"},
    {"mpirun_rsh", {}, "mpirun"},
    {"mpiexec*", {}, "mpiexec"},
    {"orterun", {}, "mpirun"},
    {"oshrun", {}, "mpirun"},
    {"shmemrun", {}, "mpirun"},
    {"prterun", {}, "mpirun"},
    {"prun", {}, "mpirun"},
    {"upcrun", {}, "mpirun"},
    {"upcxx-run", {}, "mpirun"},
    {"charmrun", {}, "mpirun"},
    {"caf_run", {}, "mpirun"},
    {"srun", {}, "srun"},
    {"jsrun", {}, "jsrun"},
    {"lrun", {}, "srun"},
    {"aprun", {}, "aprun"},
    {"ccmrun", {}, "aprun"},
    {"yod", {}, "aprun"},
    {"ibrun", {}, "ibrun"},
    {"poe", {}, "mpirun"},
    {"runjob", {}, "mpirun"},
    {"mpprun", {}, "mpirun"},
    {"pbsdsh", {}, "pbsdsh"},
    {"pbs_tmrsh", {}, "pbsdsh"},
    {"blaunch", {}, "pbsdsh"},
    {"pdsh", {}, "pbsdsh"},
    {"clush", {}, "pbsdsh"},
    {"ray", "start", {}, true},
    {"dask", "ssh", {}, true},
    {"dask-ssh", {}, {}, true},
    {"flux", "run", "flux"},
    {"flux", "submit batch alloc bulksubmit", {}, false, true},
    {"sbatch", {}, {}, false, true},
    {"salloc", {}, {}, false, true},
    {"bsub", {}, {}, false, true},
    {"qsub", {}, {}, false, true},
    {"qrsh", {}, {}, false, true},
    {"qlogin", {}, {}, false, true},
    {"oarsub", {}, {}, false, true},
    {"condor_submit", {}, {}, false, true},
};

// Programs that take a number as launchers do, and then a file or a program that is no rank.
constexpr std::array<std::string_view, 19> kOtherNumbers{
    "echo",  "git", "head", "tail",   "xargs",  "parallel", "nice", "ionice", "watch", "grep",
    "egrep", "sed", "cat",  "pytest", "stress", "ab",       "make", "nl",     "ping"};
// Options by which launchers get the number of processes.
constexpr std::array<std::string_view, 12> kNumbers{"-n",
                                                    "-np",
                                                    "--n",
                                                    "--np",
                                                    "--nproc",
                                                    "--nprocs",
                                                    "--nproc-per-node",
                                                    "--nnodes",
                                                    "--num-procs",
                                                    "--num-processes",
                                                    "--ntasks",
                                                    "--procs"};

// Launchers with names that people give their own programs, too, which are "./prun".
constexpr std::array<std::string_view, 5> kUsualNames{"prun", "poe", "lrun", "yod", "runjob"};

bool is_users_script(std::string_view name) {
  return name.ends_with(".sh") || name.ends_with(".py");
}

// Returns whether a first word names this launcher. "mpirun_x" in PATH is a launcher of a site, and
// "./mpirun_x" a program of the user.
bool is_called(std::string_view known, std::string_view word) {
  const auto name = base_name(word);
  const bool is_path = name.size() != word.size();
  if (!known.ends_with('*')) return known == name && !(is_path && is_one_of(name, kUsualNames));
  known.remove_suffix(1);
  if (!name.starts_with(known) || is_users_script(name)) return false;
  if (name.size() == known.size()) return true;
  const char next = name[known.size()];
  return next == '.' || (!is_path && (next == '-' || next == '_'));
}

// Returns the index of MODULE in `python3 [options] -m MODULE`; 0 without one.
std::size_t module_at(const std::vector<std::string>& command) {
  if (!base_name(command.front()).starts_with("python")) return 0;
  for (std::size_t i = 1; i + 1 < command.size() && command[i].starts_with('-'); ++i) {
    if (command[i] == "-m") return i + 1;
    if (command[i] == "-X" || command[i] == "-W") ++i;
  }
  return 0;
}

// Returns the module of a file that Python has installed: "torch.distributed.run" for
// "…/site-packages/torch/distributed/run.py".
std::string module_of_file(std::string_view path) {
  constexpr std::string_view kPackages = "-packages/";
  const auto at = path.find(kPackages);
  if (at == std::string_view::npos || !path.ends_with(".py")) return {};
  std::string module(path.substr(at + kPackages.size()));
  module.resize(module.size() - 3);
  std::replace(module.begin(), module.end(), '/', '.');
  return module;
}

FoundLauncher found(std::string called, const Launcher& launcher,
                    const std::vector<std::string>& command, std::size_t at) {
  return {std::move(called), launcher, std::span(command).subspan(std::min(at, command.size()))};
}

std::string plain_name(const Launcher& launcher) {
  std::string name(launcher.name.substr(0, launcher.name.find('*')));
  if (!launcher.subcommands.empty())
    name += " " + std::string(launcher.subcommands.substr(0, launcher.subcommands.find(' ')));
  return name;
}

std::optional<FoundLauncher> by_module(const std::vector<std::string>& command) {
  const auto at = module_at(command);
  const auto module = at > 0 ? command[at] : module_of_file(command.front());
  if (module.empty()) return std::nullopt;
  for (const auto& launcher : kLaunchers)
    if (has_word(launcher.modules, module))
      return found(plain_name(launcher), launcher, command, at + 1);
  return std::nullopt;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns whether the words from `at` on begin with a number of processes. Moves `at` to the word
// after it.
bool take_number(const std::vector<std::string>& words, std::size_t& at) {
  if (at >= words.size()) return false;
  auto name = words[at].substr(0, words[at].find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  if (!is_one_of(name, kNumbers)) return false;
  if (words[at].size() > name.size()) return is_number(words[at++].substr(name.size() + 1));
  if (at + 1 >= words.size() || !is_number(words[at + 1])) return false;
  at += 2;
  return true;
}

// Returns the program if it is not in the table, but gets a number of processes and a program.
std::optional<FoundLauncher> by_options(const std::vector<std::string>& command,
                                        const IsProgram& is_program) {
  const auto& name = command.front();
  const bool is_users = name.find('/') != std::string::npos || is_users_script(name);
  const bool is_other =
      is_one_of(name, kOtherNumbers) || name.starts_with("python") || is_wrapper(name);
  if (is_users || is_other) return std::nullopt;
  std::size_t at = 1;
  const bool has_subcommand =
      command.size() > 1 && !command[1].starts_with('-') &&
      std::all_of(command[1].begin(), command[1].end(),
                  [](unsigned char c) { return std::isalpha(c) != 0 || c == '-'; });
  if (has_subcommand) ++at;
  if (!take_number(command, at)) return std::nullopt;
  while (at < command.size() && command[at].starts_with('-') && command[at] != "--")
    at += command[at].find('=') == std::string::npos && at + 1 < command.size() &&
                  !is_program(command[at + 1])
              ? 2
              : 1;
  if (at < command.size() && command[at] == "--") ++at;
  if (at >= command.size() || !is_program(command[at])) return std::nullopt;
  auto guess = found(name, {name, {}, "mpirun"}, command, has_subcommand ? 2 : 1);
  guess.is_guess = true;
  return guess;
}

}  // namespace

std::optional<FoundLauncher> find_launcher(const std::vector<std::string>& command,
                                           const IsProgram& is_program) {
  if (command.empty() || command.front().empty()) return std::nullopt;
  if (auto launcher = by_module(command)) return launcher;
  for (const auto& launcher : kLaunchers) {
    if (!is_called(launcher.name, command.front())) continue;
    const auto called = std::string(launcher.name.substr(0, launcher.name.find('*')));
    if (launcher.subcommands.empty()) return found(called, launcher, command, 1);
    if (command.size() > 1 && has_word(launcher.subcommands, command[1]))
      return found(called + " " + command[1], launcher, command, 2);
  }
  return is_program ? by_options(command, is_program) : std::nullopt;
}

}  // namespace hvdrun::cli
