#include "base/environment.hpp"

#include <unordered_set>
#include <utility>

namespace hvdrun {

std::filesystem::path user_config_folder(const Environment& environment) {
  const auto* xdg = find_variable(environment, "XDG_CONFIG_HOME");
  if (xdg != nullptr && xdg->substr(0, 1) == "/") return std::filesystem::path(*xdg) / "hvdrun";
  const auto* home = find_variable(environment, "HOME");
  if (home == nullptr || home->empty()) return {};
  return std::filesystem::path(*home) / ".config/hvdrun";
}

std::vector<std::string> merge_environment(const std::vector<std::string>& block,
                                           std::vector<std::string> changes) {
  const auto name_of = [](std::string_view variable) {
    return variable.substr(0, variable.find('='));
  };
  std::unordered_set<std::string_view> changed;
  for (const auto& change : changes) changed.insert(name_of(change));
  std::vector<std::string> merged;
  merged.reserve(block.size() + changes.size());
  for (const auto& variable : block)
    if (!changed.contains(name_of(variable))) merged.push_back(variable);
  for (auto& change : changes) merged.push_back(std::move(change));
  return merged;
}

}  // namespace hvdrun
