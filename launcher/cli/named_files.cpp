#include "cli/named_files.hpp"

#include "cli/program.hpp"
#include "cli/shell_text.hpp"
#include "cli/started_commands.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>

namespace hvdrun::cli {
namespace {

namespace fs = std::filesystem;

// Programs that start another one in the same folder and with the same files.
constexpr std::string_view kTransparent =
    "env nice ionice chrt nohup setsid stdbuf unbuffer time timeout numactl taskset hwloc-bind "
    "likwid-pin likwid-perfctr prlimit setarch catchsegv strace ltrace gdb cuda-gdb rocgdb "
    "valgrind "
    "heaptrack perf nsys ncu nvprof compute-sanitizer cuda-memcheck rocprof rocprofv2 rocprofv3 "
    "vtune map ddt hpcrun";

// Returns whether the words before a program change its folder or where programs are searched for.
bool changes_place(const std::vector<std::string>& before) {
  return std::ranges::any_of(before, [](std::string_view word) {
    return word.starts_with("-C") || word.starts_with("--chdir") || word.starts_with("PATH=");
  });
}

// Returns the name of a file in the script's folder that is like its own; an empty text if there is
// none.
std::string similar_file(const fs::path& script) {
  std::vector<std::string> names;
  std::error_code error;
  const auto folder = script.parent_path();
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == script.extension())
      names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  const auto name = script.filename().string();
  return std::string(nearest_name(name, {names.begin(), names.end()}));
}

std::optional<MissingFile> look_for_script(const std::string& script, const fs::path& folder) {
  std::error_code error;
  if (script.find('$') != std::string::npos || fs::exists(folder / script, error) || error)
    return std::nullopt;
  MissingFile missing{script, true, {}, {quote(script) + " does not exist", kExitNotFound}};
  if (const auto similar = similar_file(folder / script); !similar.empty()) {
    missing.similar = (fs::path(script).parent_path() / similar).string();
    missing.error.message += "; did you mean " + missing.similar + "?";
  }
  return missing;
}

// Returns the words with which the shell of --wrap starts the program.
std::vector<std::string> with_wrap(const std::string& wrap, std::vector<std::string> command) {
  const auto commands = commands_of(wrap);
  if (commands.size() != 1) return command;
  command.insert(command.begin(), commands.front().words.begin(), commands.front().words.end());
  return command;
}

}  // namespace

std::optional<MissingFile> find_missing_file(const std::vector<std::string>& command,
                                             const std::string& wrap,
                                             const Environment& environment,
                                             const fs::path& folder) {
  const auto no_scripts = [](const std::string&) { return std::optional<std::string>(); };
  const auto all = wrap.empty() ? command : with_wrap(wrap, command);
  for (const auto& each : started_commands(all, no_scripts)) {
    if (!each.is_certain || each.in_shell || changes_place(each.before)) break;
    const auto& name = each.words.front();
    const bool is_checked = each.words.size() == command.size();  // by who calls
    if (!is_checked && name.find('$') == std::string::npos)
      if (auto found = find_program(name, environment, folder); !found)
        return MissingFile{name, false, {}, std::move(found).error()};
    if (const auto script = script_of(each.words); !script.empty())
      return look_for_script(script, folder);
    if (!has_word(kTransparent, base_name(name))) break;
  }
  return std::nullopt;
}

}  // namespace hvdrun::cli
