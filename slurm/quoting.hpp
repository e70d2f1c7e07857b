// Values in a batch script: quoted so that they arrive as they are, whatever they hold.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

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
