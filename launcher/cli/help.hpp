// The texts of --help, --version and --explain. Pure functions.
#pragma once

#include "cli/config.hpp"
#include "cli/option_sets.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// Returns the help of all options, group by group, at most 80 columns wide.
std::string help_text();

// Returns the help of `hvdrun sbatch` or `hvdrun salloc`: their own options.
std::string batch_help_text(std::string_view command);

std::string version_text();

struct Explanation {
  OptionSet options;                  // of the command
  std::vector<ConfigSource> sources;  // in order, without the command line
  std::vector<Setting> settings;      // in the order in which they apply
  std::vector<std::string> command;   // empty if none was given
  std::string program;                // the path of command[0], or why there is none
};

// Returns the text of --explain: each option's value, where it comes from, and what it overrides.
// Long lists of hosts are folded.
std::string explain_text(const Explanation& explanation);

}  // namespace hvdrun::cli
