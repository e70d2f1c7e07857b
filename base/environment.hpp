// A process's environment as a value, so that functions of it can be pure. For any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

using Environment = std::map<std::string, std::string, std::less<>>;

// Copies an environment block (environ). Leaves out entries without '='. If a name is there twice,
// the first one applies, as in getenv(3).
inline Environment environment_from(const char* const* block) {
  Environment environment;
  for (; block != nullptr && *block != nullptr; ++block) {
    const std::string_view entry(*block);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

// Returns the variable's value; nullptr if it is not set. The pointer is valid while the
// environment is unchanged.
inline const std::string* find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

// Returns hvdrun's folder in the user's configuration: $XDG_CONFIG_HOME/hvdrun, otherwise
// ~/.config/hvdrun. A relative XDG_CONFIG_HOME is ignored (XDG base directory specification).
// Returns an empty path if there is no home directory.
std::filesystem::path user_config_folder(const Environment& environment);

// Returns the block of "NAME=value" with `changes` applied. A name in `changes` is in the result
// with their value only.
std::vector<std::string> merge_environment(const std::vector<std::string>& block,
                                           std::vector<std::string> changes);

}  // namespace hvdrun
