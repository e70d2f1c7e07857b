// All settings of one call of hvdrun, from the config files and the command line. For one thread at
// a time.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/config.hpp"
#include "cli/setting.hpp"
#include "cli/words.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun::cli {

struct GatheredSettings {
  std::vector<ConfigSource> sources;
  std::vector<Setting> settings;  // in the order in which they apply
  std::vector<std::string> notes;
};

// Reads the config files, also those that --config-file names, and adds the command line's
// settings. Errors are those of read_config_source.
Result<GatheredSettings> gather_settings(const std::vector<ParsedOption>& uses,
                                         const Environment& environment,
                                         const std::filesystem::path& site_config_file);

}  // namespace hvdrun::cli
