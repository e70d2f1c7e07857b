// The programs that start ranks or submit jobs themselves: a table, and a rule for those that are
// not in it. Pure functions, for any thread. They cannot fail.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct Launcher {
  std::string_view name;              // of the program. "mpirun*": also mpirun.openmpi, mpirun_rsh
  std::string_view subcommands = {};  // of which one follows: "run submit"; empty: any words
  std::string_view like = {};         // whose options it has, as translated_command() knows them
  bool one_per_host = false;          // it is made to be started once on each host
  bool submits = false;               // it submits a job, and starts no ranks here
  std::string_view modules = {};      // of Python that do the same
};

// A launcher in a command, and the words after it.
struct FoundLauncher {
  std::string called;  // "accelerate launch", "flux run"
  Launcher launcher;
  std::span<const std::string> words;  // of the command
  bool is_guess = false;               // only its options show that it starts ranks
};

// Returns whether a word names a program that could be a rank's: in PATH, or a file to execute.
using IsProgram = std::function<bool(const std::string& word)>;

// Returns the launcher that the command starts, if it is one. A program that is not in the table is
// taken for one if it gets a number of processes before anything else, and then another program:
// `X -n 2 ./train`. Without `is_program`, only those in the table are found.
std::optional<FoundLauncher> find_launcher(const std::vector<std::string>& command,
                                           const IsProgram& is_program);

}  // namespace hvdrun::cli
