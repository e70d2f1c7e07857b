#include "slurm/step_signal.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <sys/types.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// slurmd gives the batch script this name, in its own folder.
constexpr std::string_view kScriptName = "slurm_script";
constexpr int kMostAncestors = 8;

pid_t parent_of(pid_t pid) {
  // "pid (name) state parent …"; the name may have any characters, so the last ')' ends it.
  const std::string stat = content_of("/proc/" + std::to_string(pid) + "/stat");
  const auto close = stat.rfind(')');
  if (close == std::string::npos || stat.size() < close + 4) return 0;
  return static_cast<pid_t>(std::atoi(stat.c_str() + close + 4));
}

// Returns the path of the batch script that a shell runs ("/bin/bash", "…/slurm_script"), or "".
std::string script_in(const std::string& command_line) {
  std::string_view rest = command_line;
  for (int word = 0; word < 4 && !rest.empty(); ++word) {
    const auto end = std::min(rest.find('\0'), rest.size());
    const std::filesystem::path path(rest.substr(0, end));
    if (path.filename() == kScriptName) return path;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

}  // namespace

std::string signal_option_of(std::string_view script) {
  constexpr std::string_view kOption = "--signal";
  std::string found;
  while (!script.empty()) {
    const auto end = std::min(script.find('\n'), script.size());
    const auto line = script.substr(0, end);
    script.remove_prefix(std::min(end + 1, script.size()));
    if (!line.empty() && line.front() != '#') break;  // sbatch reads no further
    if (!line.starts_with("#SBATCH")) continue;
    const auto option = line.find(kOption);
    if (option == std::string_view::npos) continue;
    auto value = line.substr(option + kOption.size());
    if (value.empty() || (value.front() != '=' && value.front() != ' ')) continue;
    value.remove_prefix(std::min(value.find_first_not_of("= \"'"), value.size()));
    found = value.substr(0, value.find_first_of(" \t\"'\r#"));
  }
  return found;
}

std::string find_signal_option(const Environment& environment) {
  if (const auto* given = find_variable(environment, "SBATCH_SIGNAL")) return *given;
  pid_t pid = ::getppid();
  for (int depth = 0; depth < kMostAncestors && pid > 1; ++depth, pid = parent_of(pid)) {
    const auto script = script_in(content_of("/proc/" + std::to_string(pid) + "/cmdline"));
    if (!script.empty()) return signal_option_of(content_of(script));
  }
  return {};
}

bool has_replaced_batch_script(const Environment& environment) {
  return find_variable(environment, "SLURM_STEP_ID") == nullptr &&
         content_of("/proc/" + std::to_string(::getppid()) + "/comm") == "slurmstepd\n";
}

}  // namespace hvdrun
