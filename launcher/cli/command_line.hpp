// hvdrun's command line. Together with cli/batch_command_line.hpp, which is that of sbatch and
// salloc, this is the way into the folder. For one thread at a time.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The link beside hvdrun that accepts horovodrun's command lines.
inline constexpr std::string_view kHorovodrun = "horovodrun";

// What the user wants done.
struct Invocation {
  enum class Action { run, help, version, check_build, explain };
  Action action = Action::run;
  JobSpec spec;      // of run; complete, with the program looked up
  std::string text;  // of help, version and explain: what to print, newline included
  // For the user, one line each, without newline: options that have no effect.
  std::vector<std::string> notes;
};

// Where hvdrun is called. Tests use their own folders.
struct SystemPaths {
  std::filesystem::path site_config_file = "/etc/hvdrun/config.json";
  std::filesystem::path working_directory = current_directory();

  // Returns an empty path if the directory was removed.
  static std::filesystem::path current_directory();
};

// Reads the words after "hvdrun" and the config files, and looks up the program. Has no other
// effects. Errors are one line without "hvdrun: " before it: kExitUsage for the command line and
// config files, kExitNotFound and kExitNotExecutable for the program.
//
// `called` is the name that hvdrun was started by. As horovodrun it turns --horovod on, has no
// subcommands, and places -np N ranks on this machine if neither hosts nor a SLURM job are given.
//
// --explain also works if the program is missing or cannot be run: its text says so.
//
// Not checked here: what depends on the number of ranks (check_named_ranks in job/plan.hpp), and
// the fields of a template of labels (output/). The text of --check-build is in
// cli/check_build.hpp.
Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const SystemPaths& system_paths = {},
                                      std::string_view called = "hvdrun");

}  // namespace hvdrun
