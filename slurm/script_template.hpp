// Templates of batch scripts: what stands in them, and where they are looked for.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// One --set NAME=VALUE: a value for a variable of a template's own.

struct VariableSetting {
  std::string name;
  std::string value;
};

// A template of a batch script: Mustache (mustache(5)) behind a few lines that say what it is for.
//
//   ---
//   about: any SLURM cluster
//   account: word | who pays (no default: it must be given)
//   threads: number = 1 | OMP_NUM_THREADS of each rank
//   --gpus-per-node=4
//   ---
//   #!/bin/bash
//   {{#directives}}
//   #SBATCH {{.}}
//   {{/directives}}
//   export OMP_NUM_THREADS={{threads}}
//   exec {{#command}}{{.}} {{/command}}
//
// A line of the front matter is NAME: TYPE = DEFAULT | HELP, without "= DEFAULT" for a variable
// that must be given; or an option of hvdrun sbatch that counts unless a config file or the command
// line says otherwise. "#" begins a comment. Besides its own variables a template has those that
// hvdrun fills in from its options (JobVariable).
//
// Of Mustache there are {{name}}, {{.}}, sections {{#name}} and {{^name}}, and comments. Values are
// quoted by hvdrun, for the shell, for a #SBATCH line or for a comment, as the line's beginning
// tells: so a template writes no quotes around them, and the tags that leave values as they are
// ({{{name}}}, {{&name}}) are refused, as are partials and other delimiters.

enum class VariableType {
  word,    // one line of text
  text,    // any text
  number,  // a whole number, not negative
  flag,    // true or false: for sections only
  list,    // words; "a,b,c" where it is given as text. A section shows each as {{.}}
};

std::string_view name_of(VariableType type);

// A variable that hvdrun gives to every template. The command line fills it in.
struct JobVariable {
  std::string_view name;
  VariableType type = VariableType::word;
  std::string_view option;  // where its value comes from: "--time"; empty: hvdrun works it out
  std::string_view help;
};

// All of them, in the order in which they are listed.
std::span<const JobVariable> job_variables();

// A variable of the template's own.
struct TemplateVariable {
  std::string name;
  VariableType type = VariableType::word;
  std::optional<std::string> default_value;  // none: it must be given
  std::string help;
  int line = 0;
};

// An option of hvdrun sbatch that the template sets.
struct TemplateOption {
  std::string name;   // without dashes
  std::string value;  // "true" where there is none
  int line = 0;
};

// A tag that shows a value or opens a section.
struct TemplateTag {
  std::string name;  // "." for the item of a list
  int line = 0;      // in the file, from 1
  bool opens_section = false;
  bool is_in_directive = false;  // on a #SBATCH line
};

struct ScriptTemplate {
  std::string name;  // as the user knows it: the file's name without its ending
  std::string file;  // for errors
  std::string about;
  std::vector<TemplateVariable> variables;
  std::vector<TemplateOption> options;
  std::string body;               // Mustache, from the line behind the front matter
  int body_line = 0;              // the body's first line, in the file
  std::vector<TemplateTag> tags;  // in order

  const TemplateVariable* find(std::string_view variable) const;
  bool shows(std::string_view variable) const;  // the body has a tag of that name
  // The body asks sbatch for it: its value stands on a #SBATCH line; of a flag or a list, the body
  // has a section of that name.
  bool asks_for(std::string_view variable) const;
};

// Reads a template's text and checks it whole. Errors (kExitUsage) are "FILE:LINE: …": what is not
// a line of the front matter, a variable declared twice, or with a name or default that cannot be;
// a tag that is refused, not closed, unknown (with the nearest name), or of a type that it cannot
// show; a value within quotes; a body that never runs the command.
Result<ScriptTemplate> parse_template(std::string_view text, std::string name, std::string file);

// Whether `value` is of the type. Error: a phrase that follows the variable's name.
Result<void> check_value(VariableType type, std::string_view value);

// The words of a list that was given as text.
std::vector<std::string> split_list(std::string_view value);

// Where templates are looked for.

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
