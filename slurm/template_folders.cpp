#include "slurm/template_folders.hpp"

#include "base/files.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

namespace hvdrun {

namespace fs = std::filesystem;

namespace {

// Much larger than any script. The bound keeps us from reading a data file or /dev/zero.
constexpr std::size_t kLargestTemplate = 1 << 20;

std::vector<fs::path> split_path(std::string_view text) {
  std::vector<fs::path> folders;
  while (!text.empty()) {
    const auto colon = text.find(':');
    if (colon != 0) folders.emplace_back(text.substr(0, colon));
    text.remove_prefix(colon == std::string_view::npos ? text.size() : colon + 1);
  }
  return folders;
}

}  // namespace

std::vector<fs::path> template_folders(const std::vector<fs::path>& command_line,
                                       const Environment& environment, const fs::path& own_folder) {
  std::vector<fs::path> folders = command_line;
  if (const auto* named = find_variable(environment, "HVD_TEMPLATE_PATH"))
    for (auto& folder : split_path(*named)) folders.push_back(std::move(folder));
  if (auto folder = user_config_folder(environment); !folder.empty())
    folders.push_back(folder / "templates");
  folders.push_back(own_folder);
  return folders;
}

fs::path own_template_folder() {
  return own_share_folder() / "hvdrun/templates";
}

std::vector<FoundTemplate> find_templates(const std::vector<fs::path>& folders) {
  std::map<std::string, fs::path> found;
  for (const auto& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == kTemplateEnding && at->is_regular_file(error))
        found.emplace(at->path().stem().string(), at->path());
  }
  std::vector<FoundTemplate> templates;
  for (auto& [name, file] : found) templates.push_back({name, std::move(file)});
  return templates;
}

Result<ScriptTemplate> load_template(const std::string& name,
                                     const std::vector<fs::path>& folders) {
  if (name.find('/') != std::string::npos)
    return read_template({fs::path(name).stem().string(), name});
  const auto templates = find_templates(folders);
  const auto found = std::find_if(templates.begin(), templates.end(),
                                  [&](const auto& known) { return known.name == name; });
  if (found != templates.end()) return read_template(*found);
  std::vector<std::string_view> known;
  for (const auto& each : templates) known.push_back(each.name);
  std::string message = "there is no template " + quote(name);
  if (const auto nearest = nearest_name(name, known); !nearest.empty()) {
    message += "; did you mean " + quote(nearest) + "?";
  } else {
    message += " in";
    for (const auto& folder : folders)
      message += (&folder == &folders.front() ? " " : ", ") + folder.string();
    message += known.empty() ? "" : "; there are";
    for (const auto each : known)
      message += (each == known.front() ? " " : ", ") + quote_if_needed(each);
    message += known.empty() ? "" : " (hvdrun templates says what for)";
  }
  return fail(message, kExitUsage);
}

Result<ScriptTemplate> read_template(const FoundTemplate& found) {
  HVD_TRY(auto text, read_file(found.file, kLargestTemplate,
                               "cannot read the template " + found.file.string()));
  // sbatch refuses a script with Windows line ends.
  for (auto at = text.find("\r\n"); at != std::string::npos; at = text.find("\r\n", at))
    text.erase(at, 1);
  return parse_template(text, found.name, found.file.string());
}

}  // namespace hvdrun
