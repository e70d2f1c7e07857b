// The text of --explain: each option's value, where it comes from, and what it overrides. A pure
// function, for any thread.
#pragma once

#include "cli/config.hpp"
#include "cli/option_sets.hpp"
#include "cli/setting.hpp"

#include <string>
#include <vector>

namespace hvdrun::cli {

struct Explanation {
  OptionSet options;                  // the command's
  std::vector<ConfigSource> sources;  // in order, without the command line
  std::vector<Setting> settings;      // in the order in which they apply
  std::vector<std::string> command;   // empty: none was given
  std::string program;                // the file that command[0] names, or why there is none
};

// Returns the text. Long lists of hosts are folded.
std::string explain_text(const Explanation& explanation);

}  // namespace hvdrun::cli
