// Config files: which are read, and what their keys set.
//
// docs/config.md is the text for users. The order, a later one overriding an earlier one key by
// key: the site's file, the user's, the one that HVDRUN_CONFIG names, those of --config-file.
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
  std::filesystem::path file;  // empty: there is none (no HOME, variable not set)
  bool must_exist = false;
  bool was_read = false;
};

// The files to look for, in order. Looks at XDG_CONFIG_HOME, HOME and HVDRUN_CONFIG.
std::vector<ConfigSource> config_sources(const std::filesystem::path& site_file,
                                         const Environment& environment,
                                         const std::vector<std::string>& command_line_files);

struct ConfigSettings {
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // Horovod's keys without effect
};

// Reads a source's file; an absent one that need not exist gives nothing. Sets was_read.
// Errors name the file and, where there is one, the line.
Result<ConfigSettings> read_config_source(ConfigSource& source);

// Reads the text of a config file that errors call `name`. Values are not judged yet.
Result<ConfigSettings> parse_config(std::string_view text, const std::string& name);

}  // namespace hvdrun::cli
