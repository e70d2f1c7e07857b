// Where templates are looked for.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/script_template.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun {

inline constexpr std::string_view kTemplateEnding = ".sbatch";

// The folders, in the order in which they count: those of the command line; those that
// HVD_TEMPLATE_PATH names ("a:b"); hvdrun/templates in the user's configuration folder
// (XDG_CONFIG_HOME, else ~/.config); hvdrun's own.
std::vector<std::filesystem::path> template_folders(
    const std::vector<std::filesystem::path>& command_line, const Environment& environment,
    const std::filesystem::path& own_folder);

// Where this hvdrun's own templates are: ../share/hvdrun/templates from the folder of its
// executable. The build and the installation put them there.
std::filesystem::path own_template_folder();

struct FoundTemplate {
  std::string name;
  std::filesystem::path file;
};

// All templates, by name; of several with one name the first folder's.
std::vector<FoundTemplate> find_templates(const std::vector<std::filesystem::path>& folders);

// The template of that name; a name with a slash in it is a file. Errors (kExitUsage): there is
// none (with the nearest name, or where was looked), it cannot be read, it is wrong.
Result<ScriptTemplate> load_template(const std::string& name,
                                     const std::vector<std::filesystem::path>& folders);

// Reads one file. Errors as parse_template's; it cannot be read; it is larger than a megabyte.
Result<ScriptTemplate> read_template(const FoundTemplate& found);

}  // namespace hvdrun
