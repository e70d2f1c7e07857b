// A process's environment as a value, so that what depends on it is a pure function.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

using Environment = std::map<std::string, std::string, std::less<>>;

// A copy of an environment block (environ): entries without '=' are left out, and of a name that
// stands there twice the first counts, as in getenv(3).
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

// The variable's value; null when it is not set. Valid as long as the environment is unchanged.
inline const std::string* find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

// hvdrun's folder in the user's configuration: $XDG_CONFIG_HOME/hvdrun, else ~/.config/hvdrun (XDG
// base directory specification: a relative XDG_CONFIG_HOME is ignored). Empty: there is no home.
std::filesystem::path user_config_folder(const Environment& environment);

// The block "NAME=value" with `changes` put over it: a name of theirs stands once, with their
// value.
std::vector<std::string> merge_environment(const std::vector<std::string>& block,
                                           std::vector<std::string> changes);

}  // namespace hvdrun
