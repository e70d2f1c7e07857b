#include "look/control_group.hpp"

#include "common/file_content.hpp"

#include <optional>
#include <sstream>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

// Returns the value after a name: "throttled_usec 512".
std::optional<double> value_of(const std::string& text, const std::string& name) {
  std::istringstream words(text);
  std::string word;
  double value = 0;
  while (words >> word >> value)
    if (word == name) return value;
  return std::nullopt;
}

}  // namespace

ControlGroup::ControlGroup(std::string membership, std::string root)
    : membership_(std::move(membership)), root_(std::move(root)) {}

// A controller is in one version. A path with ".." is outside of what is mounted here.
ControlGroup::Folder ControlGroup::folder_of(const std::string& controller) const {
  std::istringstream lines(membership_);
  Folder unified;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos || line.find("/..", second) != std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (names.find("," + controller + ",") != std::string::npos)
      return {root_ + "/" + controller, path};
    if (names != ",,") continue;
    const auto beside = root_ + "/unified";  // beside version 1
    unified = {::access(beside.c_str(), F_OK) == 0 ? beside : root_, path};
  }
  return unified;
}

bool ControlGroup::is_frozen() const {
  const auto [mount, path] = folder_of("freezer");
  if (path.empty()) return false;
  return value_of(content_of(mount + path + "/cgroup.events"), "frozen").value_or(0) == 1 ||
         content_of(mount + path + "/freezer.state").starts_with("FROZEN");
}

double ControlGroup::throttled_seconds() const {
  const auto [mount, path] = folder_of("cpu");
  double seconds = 0;
  for (auto group = path; !group.empty(); group.resize(group.rfind('/'))) {
    if (group == "/") group.clear();
    const auto text = content_of(mount + group + "/cpu.stat");
    seconds += value_of(text, "throttled_usec").value_or(0) / 1e6;
    seconds += value_of(text, "throttled_time").value_or(0) / 1e9;
    if (group.empty()) break;
  }
  return seconds;
}

}  // namespace hvdrun
