#include "agent/oom_watch.hpp"

#include <fstream>
#include <string>
#include <utility>

namespace hvdrun {
namespace {

// Lines of /proc/self/cgroup: "0::/a/b" for v2, "4:memory:/a/b" for v1's memory controller.
std::filesystem::path find_counter() {
  std::ifstream groups("/proc/self/cgroup");
  std::filesystem::path found;
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::filesystem::path file;
    if (controllers == "memory")
      file = "/sys/fs/cgroup/memory" + group + "/memory.oom_control";
    else if (controllers.empty())
      file = "/sys/fs/cgroup" + group + "/memory.events";
    std::error_code ignored;
    if (!file.empty() && std::filesystem::exists(file, ignored)) found = file;
  }
  return found;
}

}  // namespace

OomWatch::OomWatch() : OomWatch(find_counter()) {}

OomWatch::OomWatch(std::filesystem::path counter_file) : file_(std::move(counter_file)) {
  seen_ = count().value_or(0);
}

std::optional<std::uint64_t> OomWatch::count() const {
  if (file_.empty()) return std::nullopt;
  std::ifstream file(file_);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value)
    if (name == "oom_kill") return value;
  return std::nullopt;
}

bool OomWatch::happened() {
  const auto now = count();
  if (!now || *now <= seen_) return false;
  ++seen_;
  return true;
}

}  // namespace hvdrun
