// hvdrun's command line: from the words that the user typed to what is to be done. The way into
// this module.
//
// Runs on the main thread before anything is started. Errors are one line without "hvdrun: ", with
// exit code kExitUsage for the command line and config files, kExitNotFound or kExitNotExecutable
// for the program.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The name of the link beside hvdrun that takes horovodrun's command lines unchanged.
inline constexpr std::string_view kHorovodrun = "horovodrun";

struct Invocation {
  enum class Action { run, help, version, check_build, explain };
  Action action = Action::run;
  JobSpec spec;      // for run: complete, with the program looked up
  std::string text;  // for help, version and explain: what to print, newline included
  std::vector<std::string>
      notes;  // for the user, one line each, without newline: options without effect
};

// The paths that hvdrun starts from. Tests use folders of their own.
struct SystemPaths {
  std::filesystem::path site_config_file = "/etc/hvdrun/config.json";
  std::filesystem::path working_directory = current_directory();

  // Returns an empty path if the folder was removed.
  static std::filesystem::path current_directory();
};

// Reads the words after "hvdrun" and the config files, and looks the program up. It has no other
// effect.
//
// `called`: the name that hvdrun was started by. As horovodrun it turns --horovod on, has no
// subcommands, and places -np N ranks on this machine if neither hosts nor a SLURM job are given.
//
// With --explain a missing program is not an error; the text mentions it. Checks that need the
// number of ranks are in check_named_ranks (job/plan.hpp), those of a label's fields in output/.
// The text of --check-build is in cli/check_build.hpp.
Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const SystemPaths& system_paths = {},
                                      std::string_view called = "hvdrun");

}  // namespace hvdrun
