// Cuts the command line into uses of options and the program with its arguments, and gathers all
// settings of one call. Pure functions, except that gather_settings reads the config files. Errors
// have exit code kExitUsage.
//
// It has a parser of its own over the option tables (decision 0006). CLI11 does not accept "-np" as
// a name, so the words would have to be walked before by a parser that knows which options take a
// value. It also needs 1.5 ms to learn 100 options, a quarter of the launch of one rank. This
// parser takes microseconds.
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

// Cuts the words. Options end at "--" or at the first word that is not an option; the rest is the
// program and its arguments. --help, --version and --check-build end the parsing; the words after
// them are ignored. Errors: an unknown option, a missing value, a value for an option that takes
// none.
Result<Words> split_words(const std::vector<std::string>& args,
                          const OptionSet& options = run_options());

// All settings of one call, from the config files and the command line.
struct GatheredSettings {
  std::vector<ConfigSource> sources;
  std::vector<Setting> settings;  // in the order in which they apply
  std::vector<std::string> notes;
};

// Reads the config files, including those that the command line names.
Result<GatheredSettings> gather_settings(const std::vector<ParsedOption>& uses,
                                         const Environment& environment,
                                         const std::filesystem::path& site_config_file);

// Checks that a program was given, and that its words can be passed to exec. `usage`: what to type
// instead.
Result<void> check_command(const std::vector<std::string>& command, const std::string& usage);

}  // namespace hvdrun::cli
