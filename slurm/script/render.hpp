// From a template and values to a batch script.
#pragma once

#include "base/result.hpp"
#include "slurm/script/script_template.hpp"
#include "slurm/script/variable_setting.hpp"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace hvdrun {

// Text in which the script expands $NAME; see is_expandable.
struct ExpandedText {
  std::string text;
};

// Text (of words, texts and numbers), a flag, or a list.
using TemplateValue = std::variant<std::string, bool, std::vector<std::string>, ExpandedText>;
using TemplateValues = std::map<std::string, TemplateValue, std::less<>>;

// The values of the template's own variables: what is set, a later one in place of an earlier, and
// the defaults. An empty default leaves a word, text or list unset: its section is not shown.
// Errors (kExitUsage): a name that the template does not have, with the nearest that it has; a
// value that is not of its type; a variable without default that is not set. They name the
// template's file and the line of the declaration.
Result<TemplateValues> own_values(const ScriptTemplate& script,
                                  const std::vector<VariableSetting>& settings);

// The script. Each value stands there so that it arrives as it is (quoting.hpp); a variable that
// has no value shows nothing, and its section is left out. Error (kExitUsage), with the line: a
// value in a #SBATCH line that holds control characters.
Result<std::string> render_script(const ScriptTemplate& script, const TemplateValues& values);

}  // namespace hvdrun
