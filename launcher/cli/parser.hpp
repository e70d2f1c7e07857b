// The command line, cut into uses of options and the program with its arguments.
//
// A walk of its own over the two option tables, not CLI11: "-np" is no name to CLI11, so the words
// must be walked by somebody who knows which options take a value before it may see them; and with
// Horovod's options it needs 1.5 ms to learn 100 of them, a quarter of what a whole launch of one
// rank may take. The walk takes microseconds.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/config.hpp"
#include "cli/option_sets.hpp"
#include "model/job_spec.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct ParsedOption {
  const Option* option = nullptr;
  std::string spelling;  // as it was typed, for messages: "-np"
  std::string value;     // "true" or "false" for a flag, "1" for a count
};

struct Words {
  std::vector<ParsedOption> options;  // in order, actions left out
  const Option* action = nullptr;     // --help, --version, --check-build or --explain, if any
  std::vector<std::string> command;   // the program's name and its arguments, untouched
  std::vector<std::string> notes;     // one line for each of Horovod's options without effect
};

// Options end at "--" or at the first word that is none; all that follows is the program's.
// --help, --version and --check-build end the walk: what stands after them is not looked at.
// Errors: an unknown option, a value missing or too many.
Result<Words> split_words(const std::vector<std::string>& args,
                          const OptionSet& options = run_options());

// All settings of one call: from the config files and the command line.

struct GatheredSettings {
  std::vector<ConfigSource> sources;
  std::vector<Setting> settings;  // in the order in which they apply
  std::vector<std::string> notes;
};

// Reads the config files, those that the words name among them.
Result<GatheredSettings> gather_settings(const std::vector<ParsedOption>& uses,
                                         const Environment& environment,
                                         const std::filesystem::path& site_config_file);

// A program is there, and can be handed on. `usage` is what to type instead.
Result<void> check_command(const std::vector<std::string>& command, const std::string& usage);

}  // namespace hvdrun::cli

namespace hvdrun {

// hvdrun's command line: the module's one way in.

// The link beside hvdrun that takes horovodrun's command lines as they are.
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

// Where hvdrun is called. Tests put their own folders here.
struct SystemPaths {
  std::filesystem::path site_config_file = "/etc/hvdrun/config.json";
  std::filesystem::path working_directory = current_directory();

  // Empty when there is none: somebody has removed it.
  static std::filesystem::path current_directory();
};

// Reads the words after "hvdrun" and the config files, and looks the program up. Touches nothing
// else. Errors are one line without "hvdrun: " before it: kExitUsage for the command line and
// config files, kExitNotFound and kExitNotExecutable for the program.
//
// `called`: the name that hvdrun was started by. As horovodrun it turns --horovod on, has no
// subcommands, and places -np N ranks on this machine where neither hosts nor a SLURM job are
// given.
//
// --explain wins over a program that is missing or cannot be run: it says so in its text.
// What depends on the number of ranks is left to check_named_ranks (job/plan.hpp), a template's
// fields to output/, --check-build's text to cli/help.hpp.
Result<Invocation> parse_command_line(const std::vector<std::string>& args,
                                      const Environment& environment,
                                      const SystemPaths& system_paths = {},
                                      std::string_view called = "hvdrun");

}  // namespace hvdrun
