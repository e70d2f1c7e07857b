// Renders a template of a batch script: the values of its own variables, and the script with all
// values quoted. Pure functions, for any thread. Errors have exit code kExitUsage and name the
// template's file and line.
#pragma once

#include "base/result.hpp"
#include "slurm/script_template.hpp"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace hvdrun {

// Text in which the script expands $NAME; is_expandable in slurm/quoting.hpp says which text can be
// one.
struct ExpandedText {
  std::string text;
};

// Text (of words, texts and numbers), a flag, or a list.
using TemplateValue = std::variant<std::string, bool, std::vector<std::string>, ExpandedText>;
using TemplateValues = std::map<std::string, TemplateValue, std::less<>>;

// Returns the values of the template's own variables: the settings, of several for one name the
// last, and otherwise the defaults. An empty default leaves a word, text or list unset, so that its
// section is not shown. Errors: a name that the template does not have, with the nearest one; a
// value of another type; a variable without default that is not set.
Result<TemplateValues> own_values(const ScriptTemplate& script,
                                  const std::vector<VariableSetting>& settings);

// Returns the script. Each value is quoted so that the shell or sbatch reads exactly that value. A
// variable without a value shows nothing, and its section is left out. With a value of `array`,
// each {index} in a command is the index of the array's task. Error: a value on a #SBATCH line that
// has control characters.
Result<std::string> render_script(const ScriptTemplate& script, const TemplateValues& values);

}  // namespace hvdrun
