// --help and --version.
#pragma once

#include "cli/config.hpp"
#include "cli/option_sets.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// All options from the table, group by group, at most 80 columns wide.
std::string help_text();

// Of `hvdrun sbatch` or `hvdrun salloc`: their own options.
std::string batch_help_text(std::string_view command);

std::string version_text();

// --explain: each option's value, where it comes from, and what it overrides. Long lists of hosts
// are folded.

struct Explanation {
  OptionSet options;                  // whose settings there are
  std::vector<ConfigSource> sources;  // in order, the command line left out
  std::vector<Setting> settings;      // in the order in which they apply
  std::vector<std::string> command;   // empty: none was given
  std::string program;                // what command[0] stands for, or why it stands for nothing
};

std::string explain_text(const Explanation& explanation);

}  // namespace hvdrun::cli

namespace hvdrun {

// --check-build: what this hvdrun can do, and which libraries it finds on this machine.

// Whether the dynamic loader can open a library of that soname.
bool library_opens(const char* soname);

// The text of --check-build, in the form of horovodrun's.
std::string check_build_text(const std::function<bool(const char* soname)>& opens = library_opens);

}  // namespace hvdrun
