// All settings of one call: from the config files and the command line.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/config_file.hpp"
#include "cli/setting.hpp"
#include "cli/words.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun::cli {

struct Gathered {
  std::vector<ConfigSource> sources;
  std::vector<Setting> settings;  // in the order in which they apply
  std::vector<std::string> notes;
};

// Reads the config files, those that the words name among them.
Result<Gathered> gather_settings(const std::vector<OptionUse>& uses, const Environment& environment,
                                 const std::filesystem::path& site_config_file);

// A program is there, and can be handed on. `usage` is what to type instead.
Result<void> check_command(const std::vector<std::string>& command, const std::string& usage);

}  // namespace hvdrun::cli
