// Config files: which are read, and what their keys set. docs/reference/config.md is the page for
// users. Functions for one thread at a time.
//
// The order is: the site's file, the user's, the one that HVDRUN_CONFIG names, those of
// --config-file. A later file overrides an earlier one key by key.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/setting.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct ConfigSource {
  std::string title;           // "site", "user", "HVDRUN_CONFIG", "--config-file"
  std::filesystem::path file;  // empty: no such file (HOME or the variable is not set)
  bool must_exist = false;
  bool was_read = false;
};

// Returns the files to look for, in order. Reads XDG_CONFIG_HOME, HOME and HVDRUN_CONFIG.
std::vector<ConfigSource> config_sources(const std::filesystem::path& site_file,
                                         const Environment& environment,
                                         const std::vector<std::string>& command_line_files);

struct ConfigSettings {
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // Horovod's keys without effect
};

// Reads a source's file and sets was_read. Returns no settings if an optional file is absent.
// Errors (kExitUsage) name the file and, if it was read, the line.
Result<ConfigSettings> read_config_source(ConfigSource& source);

// Reads the text of a config file that errors call `name`: Horovod's YAML if the name ends in .yaml
// or .yml, otherwise JSON. Does not check the values.
Result<ConfigSettings> parse_config(std::string_view text, const std::string& name);

}  // namespace hvdrun::cli
