// A template of a batch script: its variables, options and body, and how it is read from a text.
// Pure functions and values, for any thread. Errors have exit code kExitUsage and begin with the
// file and line.
//
// A template is a script with tags in the form of Mustache's (mustache(5)), after a front matter:
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
// A line of the front matter is NAME: TYPE = DEFAULT | HELP. Without "= DEFAULT" the variable must
// be given. A line may also be an option of hvdrun sbatch; config files and the command line
// override it. "#" begins a comment. Besides its own variables a template has those that hvdrun
// fills in from its options (JobVariable).
//
// The tags are {{name}}, {{.}}, sections {{#name}} and {{^name}}, and comments. hvdrun
// quotes each value for the place where it is: the shell, a #SBATCH line or a comment. So a
// template writes no quotes around values, and the tags that leave values unquoted ({{{name}}},
// {{&name}}) are refused, as are partials and other delimiters.
#pragma once

#include "base/result.hpp"
#include "slurm/template_tags.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// One --set NAME=VALUE of the command line.
struct VariableSetting {
  std::string name;
  std::string value;
};

enum class VariableType {
  word,    // one line of text
  text,    // any text
  number,  // a whole number, not negative
  flag,    // true or false: for sections only
  list,    // words; as text "a,b,c". A section shows each as {{.}}
};

std::string_view name_of(VariableType type);

// A variable that every template has. hvdrun fills it in from the command line.
struct JobVariable {
  std::string_view name;
  VariableType type = VariableType::word;
  std::string_view option;  // that sets it: "--time"; empty: hvdrun computes it
  std::string_view help;
};

// Returns all of them, in the order in which they are listed.
std::span<const JobVariable> job_variables();

// A variable of the template's own.
struct TemplateVariable {
  std::string name;
  VariableType type = VariableType::word;
  std::optional<std::string> default_value;  // nullopt: it must be given
  std::string help;
  int line = 0;  // of its declaration, from 1
};

// An option of hvdrun sbatch that the template sets.
struct TemplateOption {
  std::string name;   // without dashes
  std::string value;  // "true" for an option without one
  int line = 0;
};

struct ScriptTemplate {
  std::string name;  // for the user: the file's name without its ending
  std::string file;  // for errors
  std::string about;
  std::vector<TemplateVariable> variables;
  std::vector<TemplateOption> options;
  std::string body;               // from the line after the front matter
  int body_line = 0;              // the body's first line, in the file
  std::vector<TemplateTag> tags;  // in order

  // Returns nullptr if the template has no such variable of its own.
  const TemplateVariable* find(std::string_view variable) const;
  // Returns whether the body has a tag of that name.
  bool shows(std::string_view variable) const;
  // Returns whether the body passes the variable to sbatch: its value is on a #SBATCH line. Of a
  // flag or a list, the body has a section of that name.
  bool asks_for(std::string_view variable) const;
};

// Reads a template and checks all of it. Errors: a malformed line of the front matter; a variable
// that is declared twice, or has an impossible name or default; a faulty tag (find_tags), one of an
// unknown name (with the nearest one) or of a type that it cannot show; a script that never runs
// the command.
Result<ScriptTemplate> parse_template(std::string_view text, std::string name, std::string file);

// Checks that the value is of the type. The error is a phrase that follows the variable's name:
// "must be …".
Result<void> check_value(VariableType type, std::string_view value);

// Returns the words of a list that was given as text.
std::vector<std::string> split_list(std::string_view value);

}  // namespace hvdrun
