// --explain: each option's value, where it comes from, and what it overrides. Long lists of hosts
// are folded.
#pragma once

#include "cli/config_file.hpp"
#include "cli/setting.hpp"

#include <string>
#include <vector>

namespace hvdrun::cli {

struct Explanation {
  OptionSet options;                  // whose settings there are
  std::vector<ConfigSource> sources;  // in order, the command line left out
  std::vector<Setting> settings;      // in the order in which they apply
  std::vector<std::string> command;   // empty: none was given
  std::string program;                // what command[0] stands for, or why it stands for nothing
};

std::string explain_text(const Explanation& explanation);

}  // namespace hvdrun::cli
