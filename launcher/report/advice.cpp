#include "report/advice.hpp"

#include "base/event_loop.hpp"
#include "base/passed_signals.hpp"
#include "common/shell_words.hpp"
#include "common/text.hpp"
#include "report/failures.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

bool has_said(const RankReport& rank, std::string_view message) {
  const auto has = [message](const std::string& text) {
    return text.find(message) != std::string::npos;
  };
  return has(rank.failure.text) ||
         std::any_of(rank.last_stderr.begin(), rank.last_stderr.end(), has);
}

// Returns the words for a shell, with a blank before; " …" for more than anyone pastes.
std::string pasted(std::span<const std::string> words) {
  constexpr std::size_t kMostBytes = 2000;
  if (words.empty()) return {};
  const auto line = " " + shell_line(words);
  return line.size() > kMostBytes ? " …" : line;
}

// Returns the command line of the job as it was typed, with these words added to its options.
std::string command_with(std::string_view options, const Report& report, const JobSpec& spec) {
  auto typed = spec.typed;
  if (typed.empty()) typed = {"hvdrun", "-np", std::to_string(report.ranks.size())};
  const std::size_t first = typed.size() > 1 && typed[1] == "run" ? 2 : 1;
  const std::span<const std::string> words(typed);
  auto line = shell_line(words.first(first));
  if (!options.empty()) line += fmt::format(" {}", options);
  return line + pasted(words.subspan(std::min(first, words.size()))) + pasted(spec.command);
}

std::optional<std::string> module_advice(const Report& report, const RankReport& rank,
                                         const JobSpec& spec) {
  const auto is_missing = [&rank](std::string_view module) {
    return has_said(rank, fmt::format("No module named '{}'", module));
  };
  const bool lacks_horovod = is_missing("horovod");
  if (!lacks_horovod && !is_missing("hvd")) return std::nullopt;
  if (lacks_horovod && !spec.horovod)
    return "the module horovod is missing; hvdrun brings one, on hvd: " +
           command_with("--horovod", report, spec);
  const auto& folder = lacks_horovod ? spec.horovod_folder : spec.hvd_folder;
  if (lacks_horovod || spec.horovod)
    return fmt::format(
        "this Python has not looked into {}, which --horovod has put on its "
        "PYTHONPATH: was that changed, or Python started with -E or -I?",
        quote_if_needed(folder.string()));
  if (folder.empty())
    return "the package hvd is missing in this Python; start the ranks with the Python for which "
           "pip has installed hvdrun";
  const auto quoted = quote_for_shell(folder.string());
  return fmt::format("the package hvd is in {0}: PYTHONPATH={0} {1}", quoted,
                     command_with("", report, spec));
}

// What a rank prints that has not found its job, because a --for was not given.
struct Sign {
  std::string_view message;
  Framework framework;
  std::string_view option;
  std::string_view meaning;
};

// Source: JAX, jax/_src/distributed.py; TensorFlow, slurm_cluster_resolver.py; MLX,
// mlx.core.distributed.init. A KeyError is Python's, for a variable that --for sets.
constexpr std::array kSigns{
    Sign{"coordinator_address should be defined", Framework::jax, "--for jax",
         "JAX found no cluster; --for jax describes this one to it"},
    Sign{"KeyError: 'JAX_COORDINATOR_ADDRESS'", Framework::jax, "--for jax",
         "--for jax sets JAX_COORDINATOR_ADDRESS"},
    Sign{"KeyError: 'TF_CONFIG'", Framework::tensorflow, "--for tensorflow",
         "--for tensorflow sets TF_CONFIG"},
    Sign{"not found in environment. Not running inside a SLURM step?", Framework::tensorflow,
         "--for tensorflow",
         "SlurmClusterResolver works in SLURM jobs only; --for tensorflow sets TF_CONFIG, which "
         "MultiWorkerMirroredStrategy reads without a resolver"},
    Sign{"[distributed] Couldn't initialize any backend", Framework::mlx, "--for mlx",
         "MLX found no other ranks; --for mlx lists them for it"},
    Sign{"KeyError: 'MLX_", Framework::mlx, "--for mlx", "--for mlx sets the variables of MLX"},
    Sign{"KeyError: 'TORCHELASTIC_", Framework::torchrun, "--for torchrun",
         "--for torchrun sets torchrun's other variables"},
    Sign{"KeyError: 'ROLE_", Framework::torchrun, "--for torchrun",
         "--for torchrun sets torchrun's other variables"},
    Sign{"KeyError: 'ACCELERATE_", Framework::accelerate, "--for accelerate",
         "--for accelerate sets what accelerate launch sets"},
};

std::optional<std::string> framework_advice(const Report& report, const RankReport& rank,
                                            const JobSpec& spec) {
  for (const auto& sign : kSigns)
    if (!spec.frameworks.contains(sign.framework) && has_said(rank, sign.message))
      return fmt::format("{}: {}", sign.meaning, command_with(sign.option, report, spec));
  return std::nullopt;
}

bool is_python(const JobSpec& spec) {
  return std::any_of(spec.command.begin(), spec.command.end(), [](const std::string& word) {
    const auto name = std::string_view(word).substr(word.rfind('/') + 1);
    return name.starts_with("python") || name.ends_with(".py");
  });
}

// The C++ library prints this if a thread is destroyed while it runs. PyTorch's threads are, now
// and then, in a program that exits with a process group. An exception of the program's own comes
// with a message of its own.
std::optional<std::string> exit_advice(const RankReport& rank, const JobSpec& spec) {
  if (rank.signal != SIGABRT || !is_python(spec)) return std::nullopt;
  if (!has_said(rank, "terminate called without an active exception")) return std::nullopt;
  if (has_said(rank, "Traceback (most recent call last)")) return std::nullopt;
  return fmt::format(
      "rank {} may have finished its work: programs of PyTorch can abort like this at their exit "
      "if they do not call torch.distributed.destroy_process_group()",
      rank.placement.rank);
}

// MPICH 5 says so when it finds PMIx. Earlier ones find nothing, and each rank is rank 0 of 1.
std::optional<std::string> mpich_advice(const Report& report, const RankReport& rank,
                                        const JobSpec& spec) {
  if (!has_said(rank, "unsupported PMI version PMIx")) return std::nullopt;
  return fmt::format(
      "the program is built with MPICH, whose ranks hvdrun cannot bring together: "
      "mpiexec -n {}{}, with the mpiexec of MPICH (Debian's mpiexec.mpich)",
      report.ranks.size(), pasted(spec.command));
}

// A signal that hvdrun passes on, which the program does not handle. SLURM sends it before the time
// limit, and hvdrun sbatch --requeue asks for it.
std::optional<std::string> signal_advice(const RankReport& rank, const JobSpec& spec) {
  if (std::ranges::find(passed_signals(), rank.signal) == passed_signals().end()) return {};
  const auto name = signal_name(rank.signal);
  if (spec.max_requeues == 0)
    return fmt::format(
        "{} ends a program that does not handle it; hvdrun passes on to the ranks "
        "each one that it gets, as from SLURM before the time limit (--signal)",
        name);
  return fmt::format(
      "{} is SLURM's warning before the time limit, which --requeue asks for, and the program does "
      "not handle it: let it save and stop with hvd.watch_signal(signal.{}) and hvd.agree_stop, or "
      "leave --requeue out",
      name, name);
}

// Python's debugger ends like this at the end of its input, and input() with an EOFError.
std::optional<std::string> terminal_advice(const Report& report, const RankReport& rank,
                                           const JobSpec& spec) {
  if (rank.has_terminal) return std::nullopt;
  const bool is_debugger = has_said(rank, "bdb.BdbQuit");
  if (!is_debugger && !has_said(rank, "EOFError: EOF when reading a line")) return std::nullopt;
  const int number = rank.placement.rank;
  if (const auto chosen = spec.output.terminal_rank)
    return fmt::format(
        "{} needs a terminal, and only rank {} has it (--tty): let no other rank call it",
        is_debugger ? "breakpoint()" : "input()", *chosen);
  return fmt::format("{} needs a terminal, and rank {} had none; in a terminal: {}",
                     is_debugger ? "breakpoint()" : "input()", number,
                     command_with(fmt::format("--tty {}", number), report, spec));
}

// Removes the options that set this variable. Returns how many there were.
std::size_t erase_variable(std::vector<std::string>& typed, std::string_view name) {
  const auto sets = [name](std::string_view word) {
    return word.starts_with(name) && (word.size() == name.size() || word[name.size()] == '=');
  };
  std::size_t erased = 0;
  for (std::size_t i = 0; i < typed.size();) {
    const std::string_view word = typed[i];
    std::ptrdiff_t words = 0;
    if (word == "-x")
      words = i + 1 < typed.size() && sets(typed[i + 1]) ? 2 : 0;
    else if (word.starts_with("-x"))
      words = sets(word.substr(word.starts_with("-x=") ? 3 : 2)) ? 1 : 0;
    const auto at = typed.begin() + static_cast<std::ptrdiff_t>(i);
    typed.erase(at, at + words);
    if (words > 0)
      ++erased;
    else
      ++i;
  }
  return erased;
}

// A port that the user or the program has chosen. Source: strerror(EADDRINUSE), and libuv's name.
std::optional<std::string> port_advice(const Report& report, const RankReport& rank,
                                       const JobSpec& spec) {
  constexpr std::string_view kPort = "MASTER_PORT";
  if (!has_said(rank, "ddress already in use") && !has_said(rank, "EADDRINUSE"))
    return std::nullopt;
  const auto chosen = std::ranges::find(spec.environment, kPort, &EnvironmentChange::name);
  if (chosen == spec.environment.end())
    return fmt::format(
        "rank {} needs a port that another process has; hvdrun gives each job free ports, the one "
        "in MASTER_PORT and the 64 after it: let the program use them",
        rank.placement.rank);
  auto without = spec;
  const bool is_typed = erase_variable(without.typed, kPort) > 0;
  if (!is_typed || !chosen->value || !has_said(rank, *chosen->value)) return std::nullopt;
  return fmt::format(
      "another process has the port of -x MASTER_PORT={}; hvdrun chooses a free one: {}",
      *chosen->value, command_with("", report, without));
}

// Debian 13's own PyTorch 2.6 asks for what it was built without (torch/distributed/rendezvous.py).
std::optional<std::string> libuv_advice(const Report& report, const RankReport& rank,
                                        const JobSpec& spec) {
  if (!has_said(rank, "without libuv support")) return std::nullopt;
  return "this PyTorch was built without libuv, and needs a variable for that: " +
         command_with("-x USE_LIBUV=0", report, spec);
}

}  // namespace

std::vector<std::string> advice(const Report& report, const JobSpec& spec) {
  if (!report.first_failure) return {};
  const auto& rank = report.ranks[static_cast<std::size_t>(*report.first_failure)];
  for (auto line : {module_advice(report, rank, spec), framework_advice(report, rank, spec),
                    terminal_advice(report, rank, spec), mpich_advice(report, rank, spec),
                    port_advice(report, rank, spec), libuv_advice(report, rank, spec),
                    exit_advice(rank, spec), signal_advice(rank, spec)})
    if (line) return {*line};
  return {};
}

}  // namespace hvdrun
