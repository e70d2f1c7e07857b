// From a template of a batch script and values to the script: scanning, tags, rendering, quoting.
#pragma once

#include "base/result.hpp"
#include "slurm/script_template.hpp"

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hvdrun {

// Where in a shell script one is: in a comment, a #SBATCH line, quotes, a here-document. Enough of
// bash(1)'s grammar to tell where a value must not be put, and of sbatch's to tell where its
// options end; not a parser.
class ScriptScan {
 public:
  void walk(std::string_view text);
  // A value stands here.
  void pass_value() { walk("x"); }

  int lines() const { return lines_; }  // that have ended
  bool is_in_directive() const;
  bool is_in_comment() const { return is_comment_ && !is_in_directive(); }
  bool is_in_quotes() const { return quote_ != 0 && !is_in_comment(); }
  bool is_in_here_document() const { return !here_end_.empty(); }
  // The number of the line, from 0, with the first command before this one; -1: none yet.
  int first_command() const { return first_command_; }

 private:
  void take(char letter);
  void end_line();

  std::string line_;  // so far
  int lines_ = 0;
  bool is_comment_ = false;  // the line, or what is left of it
  char quote_ = 0;
  bool is_escaped_ = false;
  std::string here_end_;  // the line that ends the here-document; empty: in none
  int first_command_ = -1;
};

// Mustache's tags in the body of a template, found and judged before the library renders it: it
// takes an unknown name for an empty text, and says of other mistakes only at which byte they are.

struct TagFault {
  int line = 0;
  std::string message;
};

// The tags of a body whose first line is number `first_line` of its file. Faults: a tag that is not
// closed, or of a kind that is refused (script_template.hpp); sections that are not closed, or in
// another order; {{.}} outside of a section; a value inside of quotes; a control character 0x01 to
// 0x06, with which render_script marks the values.
common::Result<std::vector<TemplateTag>, TagFault> find_tags(std::string_view body, int first_line);

// The body without the lines' ends and indentation where a line holds nothing but the tag of a
// section or comment, as mustache(5) has it: such a line shows nothing. (The library leaves an
// empty line for a section that is not shown, and drops one behind a section's end.) An empty line
// of the template's own holds kEmptyLine, for whoever renders to take away.
inline constexpr char kEmptyLine = '\x04';
std::string without_lines_of_tags(std::string_view body);

// From a template and values to a batch script.

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

// The script. Values are quoted so that they arrive as they are; a variable that has no value shows
// nothing, and its section is left out. Error (kExitUsage), with the line: a value in a #SBATCH
// line that holds control characters.
Result<std::string> render_script(const ScriptTemplate& script, const TemplateValues& values);

// Values in a batch script: quoted so that they arrive as they are, whatever they hold.

// One word of a shell command (bash(1), QUOTING): as it is where that is safe, in single quotes
// otherwise, and where it holds control characters in $'…', so that it stays on its line.
std::string quote_for_shell(std::string_view value);

// The same of a text with $NAME or ${NAME} in it, which the shell expands: where the variable is
// empty or unset the script ends with an error that names it.
std::string quote_for_shell_expanding(std::string_view value);

// Whether each $ in it begins such a name.
bool is_expandable(std::string_view value);

// One argument of a #SBATCH line. sbatch has a grammar of its own for them (sbatch(1) says nothing
// of it): blanks end an argument, # the line; "…" and '…' keep both, and a backslash takes the next
// character as it is, inside of quotes as well. Of --name=value only the value is quoted. A value
// with a line's end in it cannot be written: see fits_directive.
std::string quote_for_directive(std::string_view argument);

// Whether the value can stand in a #SBATCH line: it holds no control characters.
bool fits_directive(std::string_view value);

// In a comment: control characters are blanks, so that it does not end before its line does.
std::string quote_for_comment(std::string_view value);

}  // namespace hvdrun
