#include "base/environment.hpp"

#include <unordered_set>
#include <utility>

namespace hvdrun {

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
