// Finds templates of batch scripts by their names, and reads them. A template NAME is the file
// NAME.sbatch in the first folder that has it. Reads the disk on the caller's thread. Errors have
// exit code kExitUsage.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/script_template.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline constexpr std::string_view kTemplateEnding = ".sbatch";

// Returns the folders, first the one that is searched first: those of the command line; those in
// HVD_TEMPLATE_PATH
// ("a:b"); hvdrun/templates in the user's configuration folder (XDG_CONFIG_HOME, else ~/.config);
// hvdrun's own.
std::vector<std::filesystem::path> template_folders(
    const std::vector<std::filesystem::path>& command_line, const Environment& environment,
    const std::filesystem::path& own_folder);

// Returns the folder of this hvdrun's own templates: ../share/hvdrun/templates, seen from the
// folder of its executable. The build and the installation put them there.
std::filesystem::path own_template_folder();

struct FoundTemplate {
  std::string name;
  std::filesystem::path file;
};

// Returns all templates, sorted by name. Of several with one name it returns that of the first
// folder.
std::vector<FoundTemplate> find_templates(const std::vector<std::filesystem::path>& folders);

// Reads the template of that name. A name with a slash is the path of a file. Errors: there is no
// such template (with the nearest name, or the folders that were searched), or those of
// read_template.
Result<ScriptTemplate> load_template(const std::string& name,
                                     const std::vector<std::filesystem::path>& folders);

// Reads one file. Errors: it cannot be read, it is larger than 1 MiB, or those of parse_template.
Result<ScriptTemplate> read_template(const FoundTemplate& found);

}  // namespace hvdrun
