// hvdrun's command line: the module's one way in.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun {

// What the user wants done.
struct Invocation {
  enum class Action { run, help, version, check_build, explain };
  Action action = Action::run;
  JobSpec spec;      // of run; complete, with the program looked up
  std::string text;  // of help, version and explain: what to print, newline included
  // For the user, one line each, without newline: options that have no effect.
  std::vector<std::string> notes;
};

// Where hvdrun is called. Tests put their own folders here.
struct Surroundings {
  std::filesystem::path site_config_file = "/etc/hvdrun/config.json";
  std::filesystem::path working_directory = current_directory();

  // Empty when there is none: somebody has removed it.
  static std::filesystem::path current_directory();
};

// Reads the words after "hvdrun" and the config files, and looks the program up. Touches nothing
// else. Errors are one line without "hvdrun: " before it: kExitUsage for the command line and
// config files, kExitNotFound and kExitNotExecutable for the program.
//
// --explain wins over a program that is missing or cannot be run: it says so in its text.
// What depends on the number of ranks is left to check_named_ranks (job/plan.hpp), a template's
// fields to output/, --check-build's text to cli/check_build.hpp.
Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const Surroundings& surroundings = {});

}  // namespace hvdrun
